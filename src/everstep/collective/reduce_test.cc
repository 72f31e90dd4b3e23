// collective: every route gives the bits of the definition.
#include <gtest/gtest.h>

#include "everstep/collective/test_world.h"

namespace everstep {
namespace {

enum class Route { kOneMemory, kInHost, kTcp, kMixed };

std::vector<std::string> HostsOf(Route route, int members) {
  std::vector<std::string> hosts;
  for (int r = 0; r < members; ++r) {
    const int host = route == Route::kTcp ? r : route == Route::kMixed ? (r * 2) / members : 0;
    hosts.push_back("host" + std::to_string(host));
  }
  return hosts;
}

// One round over all buckets on every member: started in order, waited for, compared, concluded.
void RunRound(Communicator& c, const ArenaShape& shape, uint64_t seed, Round round) {
  std::vector<Ticket> tickets;
  const int buckets = static_cast<int>(shape.bucket_sizes.size());
  for (int b = 0; b < buckets; ++b) {
    const std::vector<Part> parts = FillParts(c, shape, seed, round, b);
    auto ticket = c.Reduce(round, b, parts, Soon());
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*ticket);
  }
  for (int b = 0; b < buckets; ++b) {
    const absl::Status waited = c.Wait(tickets[b], Soon());
    ASSERT_TRUE(waited.ok()) << waited;
    ASSERT_TRUE(ResultIsDefined(c, shape, seed, round, b));
  }
  const auto verdict = c.Conclude(round, Vote{round, {}, 0, 0}, Soon());
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_EQ(verdict->min_step, round);
  ASSERT_EQ(verdict->max_step, round);
}

class Reduce : public ::testing::TestWithParam<Route> {
 protected:
  void Check(int replicas, int members, const ArenaShape& shape, int rounds, uint64_t seed) {
    SCOPED_TRACE(::testing::Message() << replicas << " replicas on " << members);
    const View view = ViewOf(HostsOf(GetParam(), members), replicas);
    std::vector<std::unique_ptr<Communicator>> all;
    std::unique_ptr<EndpointWorld> world;
    if (GetParam() == Route::kOneMemory) {
      all = ConnectInOneMemory(view, shape);
    } else {
      world = std::make_unique<EndpointWorld>(view, shape);
      all = world->Connect();
    }
    OnThreads(members, [&](int r) {
      if (all[r] == nullptr) return;
      for (Round round = 0; round < rounds; ++round) RunRound(*all[r], shape, seed, round);
    });
  }
};

TEST_P(Reduce, AnyReplicasOnAnyMembersGiveTheDefinedBits) {
  for (uint64_t k = 0; k < 24; ++k) {
    const int replicas = 1 + static_cast<int>(RandomAt(1, k) % 16);
    const int members = 1 + static_cast<int>(RandomAt(2, k) % std::min(replicas, 6));
    ArenaShape shape;
    shape.slots = MaxSlots(replicas);
    const int buckets = 1 + static_cast<int>(RandomAt(3, k) % 4);
    for (int b = 0; b < buckets; ++b) {
      const int64_t scale[] = {1, 100, 5000, 20000};
      shape.bucket_sizes.push_back(
          static_cast<int64_t>(RandomAt(4 + k, b) % (scale[RandomAt(99, 10 * k + b) % 4] + 1)));
    }
    Check(replicas, members, shape, 2, k);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_P(Reduce, ALargeOddBucketBetweenEmptyOnes) { Check(4, 4, {{0, 100003, 0, 17}, 9}, 2, 7); }

TEST_P(Reduce, OneReplicaPassesItsBitsThrough) { Check(1, 1, {{1001}, 1}, 2, 8); }

TEST_P(Reduce, UnevenReplicas) {
  Check(4, 3, {{4099, 1}, MaxSlots(4)}, 3, 9);
  Check(13, 5, {{4099, 1}, MaxSlots(13)}, 3, 10);
}

INSTANTIATE_TEST_SUITE_P(Routes, Reduce,
                         ::testing::Values(Route::kOneMemory, Route::kInHost, Route::kTcp,
                                           Route::kMixed),
                         [](const auto& info) {
                           switch (info.param) {
                             case Route::kOneMemory:
                               return "OneMemory";
                             case Route::kInHost:
                               return "InHost";
                             case Route::kTcp:
                               return "Tcp";
                             case Route::kMixed:
                               return "Mixed";
                           }
                           return "";
                         });

}  // namespace
}  // namespace everstep
