// collective: what the tests of the room share: members as threads of one process, and the sum
// written out as it is defined.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "everstep/base/float_environment.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/tree.h"
#include "everstep/collective/endpoint.h"
#include "everstep/collective/tree_communicator.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {

inline uint32_t BitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Any bits at all, and every third time a special value.
inline float AnyFloat(uint64_t random) {
  static const uint32_t specials[] = {0x00000000, 0x80000000, 0x00000001, 0x807fffff,
                                      0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
                                      0x7f800001, 0x7f7fffff, 0x3f800000, 0xbf800000};
  if (random % 3 == 0) return FloatOf(specials[(random >> 8) % 12]);
  return FloatOf(static_cast<uint32_t>(random >> 32));
}

// The gradient of replica `r` at float `i` of the layout, in round `round`.
inline float Leaf(uint64_t seed, Round round, int r, int64_t i) {
  return AnyFloat(HashKey(
      {seed, static_cast<uint64_t>(round), static_cast<uint64_t>(r), static_cast<uint64_t>(i)}));
}

// The sum over replicas [a, b), as DESIGN defines it: nothing of the code under test is used.
inline float Defined(int a, int b, const std::function<float(int)>& leaf) {
  if (b - a == 1) return leaf(a);
  int half = 1;
  while (half * 2 < b - a) half *= 2;
  const volatile float left = Defined(a, a + half, leaf);
  const volatile float right = Defined(a + half, b, leaf);
  const float sum = left + right;
  return sum != sum ? FloatOf(0x7fc00000) : sum;
}

inline View ViewOf(const std::vector<std::string>& hosts, int num_replicas, int64_t id = 1) {
  View view;
  view.id = {1, id};
  view.num_replicas = num_replicas;
  const int members = static_cast<int>(hosts.size());
  const std::vector<int> begins = AssignReplicas(num_replicas, members);
  for (int r = 0; r < members; ++r) {
    Member m;
    m.task = {"worker", r};
    m.incarnation = 1000 + static_cast<uint64_t>(r);
    m.host = hosts[r];
    m.replica_begin = begins[r];
    m.replica_end = begins[r + 1];
    view.members.push_back(m);
  }
  return view;
}

// Runs `body(rank)` on a thread for each of `members` ranks, in the float environment of sums.
inline void OnThreads(int members, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < members; ++r) {
    threads.emplace_back([&body, r] {
      SetFloatEnvironment();
      body(r);
    });
  }
  for (std::thread& t : threads) t.join();
}

inline Deadline Soon(int64_t ms = 20000) {
  return After(RealClock(), std::chrono::milliseconds(ms));
}

// Members as threads, each with an endpoint of its own on loopback; those of equal host share
// memory, by mappings of their own.
class EndpointWorld {
 public:
  EndpointWorld(View view, const ArenaShape& shape)
      : secret_(JobSecret::Generate()), view_(std::move(view)) {
    for (Member& m : view_.members) {
      EndpointOptions options;
      options.incarnation = m.incarnation;
      options.first_port = 0;
      options.last_port = 0;  // any
      auto endpoint = Endpoint::Make(secret_, options);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status();
      EXPECT_TRUE((*endpoint)->Prepare(shape).ok());
      m.data_address = (*endpoint)->data_address();
      endpoints_.push_back(*std::move(endpoint));
    }
  }

  const View& view() const { return view_; }
  View& view() { return view_; }
  const JobSecret& secret() const { return secret_; }
  Endpoint& endpoint(int rank) { return *endpoints_[rank]; }

  std::vector<std::unique_ptr<Communicator>> Connect() {
    std::vector<std::unique_ptr<Communicator>> made(view_.members.size());
    OnThreads(static_cast<int>(made.size()), [&](int r) {
      auto c = endpoints_[r]->Connect(view_, view_.members[r].incarnation, Soon());
      EXPECT_TRUE(c.ok()) << c.status();
      if (c.ok()) made[r] = *std::move(c);
    });
    return made;
  }

 private:
  JobSecret secret_;
  View view_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

// Members as threads that use the very same memory, so that a race detector sees all of it.
inline std::vector<std::unique_ptr<Communicator>> ConnectInOneMemory(const View& view,
                                                                     const ArenaShape& shape) {
  const int members = static_cast<int>(view.members.size());
  const auto layout = ArenaLayout::Make(shape).value();
  std::vector<CommunicatorParts> parts(members);
  for (int r = 0; r < members; ++r) {
    parts[r].view = view;
    parts[r].rank = r;
    parts[r].arena = Arena::Create(layout).value();
    parts[r].cells = MakeCells().value().page;
    parts[r].wake = MakeEventFd().value();
    parts[r].links.resize(members);
    parts[r].shares.assign(members, std::vector<bool>(members));
    for (int i = 0; i < members; ++i) {
      for (int j = 0; j < members; ++j) {
        parts[r].shares[i][j] = i != j && view.members[i].host == view.members[j].host;
      }
    }
  }
  for (int r = 0; r < members; ++r) {
    for (int p = 0; p < r; ++p) {
      auto pair = MakeSocketPair().value();
      parts[r].links[p].socket = std::move(pair.first);
      parts[p].links[r].socket = std::move(pair.second);
    }
    for (int p = 0; p < members; ++p) {
      if (p == r) continue;
      parts[r].links[p].arena = parts[p].arena;
      parts[r].links[p].cells = parts[p].cells;
      parts[r].links[p].wake = Duplicate(parts[p].wake.get()).value();
    }
  }
  std::vector<std::unique_ptr<Communicator>> made;
  for (CommunicatorParts& p : parts) {
    made.push_back(TreeCommunicator::Make(std::move(p), RealClock()).value());
  }
  return made;
}

// Fills the member's partial buffers for `bucket` with the defined sums of its nodes, and says so.
inline std::vector<Part> FillParts(Communicator& c, const ArenaShape& shape, uint64_t seed,
                                   Round round, int bucket) {
  int64_t offset = 0;
  for (int b = 0; b < bucket; ++b) offset += shape.bucket_sizes[b];
  const int64_t size = shape.bucket_sizes[bucket];
  const View& view = c.view();
  const Member& me = view.members[c.rank()];
  std::vector<Part> parts;
  for (TreeNode node : MaximalNodes(view.num_replicas, me.replica_begin, me.replica_end)) {
    const int slot = static_cast<int>(parts.size());
    const absl::Span<float> at = c.partial(slot).subspan(offset, size);
    for (int64_t i = 0; i < size; ++i) {
      at[i] =
          Defined(node.begin, node.end, [&](int r) { return Leaf(seed, round, r, offset + i); });
    }
    parts.push_back({node, at});
  }
  return parts;
}

// Whether the member's result of `bucket` is the defined sum over all replicas.
inline ::testing::AssertionResult ResultIsDefined(Communicator& c, const ArenaShape& shape,
                                                  uint64_t seed, Round round, int bucket) {
  int64_t offset = 0;
  for (int b = 0; b < bucket; ++b) offset += shape.bucket_sizes[b];
  for (int64_t i = offset; i < offset + shape.bucket_sizes[bucket]; ++i) {
    const uint32_t want =
        BitsOf(Defined(0, c.view().num_replicas, [&](int r) { return Leaf(seed, round, r, i); }));
    const uint32_t got = BitsOf(c.result()[i]);
    if (got != want) {
      return ::testing::AssertionFailure()
             << "rank " << c.rank() << ", round " << round << ", bucket " << bucket << ", float "
             << i << ": " << std::hex << got << " instead of " << want;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace everstep
