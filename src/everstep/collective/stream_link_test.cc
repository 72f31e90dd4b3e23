// collective: frames over streams: both directions at once, damage, farewells, slow readers.
#include "everstep/collective/stream_link.h"

#include <gtest/gtest.h>

#include <map>

#include "everstep/base/status.h"
#include "everstep/collective/test_world.h"

namespace everstep {
namespace {

const ViewId kView = {1, 2};

// Puts floats where their (bucket, offset) says, and keeps the rest as text.
class Keeper : public FrameSink {
 public:
  absl::StatusOr<absl::Span<std::byte>> Begin(int, const Frame& frame) override {
    if (frame.kind == FrameKind::kVote || frame.kind == FrameKind::kFarewell) {
      text.resize(frame.bytes);
      return absl::Span<std::byte>(reinterpret_cast<std::byte*>(text.data()), text.size());
    }
    if (frame.kind == FrameKind::kPing) return absl::Span<std::byte>();
    std::vector<float>& into = floats[frame.bucket];
    if (frame.offset != static_cast<int64_t>(into.size())) {
      return absl::InvalidArgumentError("out of order");
    }
    into.resize(into.size() + frame.bytes / sizeof(float));
    return absl::Span<std::byte>(reinterpret_cast<std::byte*>(into.data() + frame.offset),
                                 frame.bytes);
  }
  absl::Status End(int, const Frame& frame) override {
    ended.push_back(frame.kind);
    return absl::OkStatus();
  }

  std::map<int, std::vector<float>> floats;
  std::string text;
  std::vector<FrameKind> ended;
};

struct TwoLinks {
  TwoLinks() : sockets(MakeSocketPair().value()) {}
  std::pair<UniqueFd, UniqueFd> sockets;
  StreamLink a{1, sockets.first.get(), kView};
  StreamLink b{0, sockets.second.get(), kView};
  Keeper at_a, at_b;
};

SendJob JobOf(int bucket, const std::vector<float>& data, const int64_t& available, int& unsent) {
  SendJob job;
  job.frame.kind = FrameKind::kPartial;
  job.frame.bucket = bucket;
  job.data = data.data();
  job.floats = static_cast<int64_t>(data.size());
  job.available = &available;
  job.unsent = &unsent;
  ++unsent;
  return job;
}

std::vector<float> Numbers(uint64_t seed, int64_t n) {
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(RandomAt(seed, i) % 1000);
  return v;
}

TEST(StreamLink, BigSendsBothWaysAtOnceDoNotBlockEachOther) {
  TwoLinks links;  // a unix socket holds some 200 KB: far less than what is sent
  const std::vector<float> one = Numbers(1, 1'000'001), two = Numbers(2, 777'777);
  const int64_t all_one = 1'000'001, all_two = 777'777;
  int unsent = 0;
  links.a.Queue(JobOf(0, one, all_one, unsent));
  links.b.Queue(JobOf(0, two, all_two, unsent));
  for (int i = 0; i < 100000 && (unsent > 0 || links.at_a.floats[0].size() < two.size() ||
                                 links.at_b.floats[0].size() < one.size());
       ++i) {
    ASSERT_TRUE(links.a.Flush().ok());
    ASSERT_TRUE(links.b.Flush().ok());
    ASSERT_TRUE(links.a.Receive(links.at_a).ok());
    ASSERT_TRUE(links.b.Receive(links.at_b).ok());
  }
  EXPECT_EQ(unsent, 0);
  EXPECT_EQ(links.at_b.floats[0], one);
  EXPECT_EQ(links.at_a.floats[0], two);
  EXPECT_TRUE(links.a.idle());
}

TEST(StreamLink, ALaterJobGoesAheadOfOneThatHasNothingYet) {
  TwoLinks links;
  const std::vector<float> early = Numbers(1, 100), late = Numbers(2, 100);
  int64_t none = 0;
  const int64_t all = 100;
  int unsent = 0;
  links.a.Queue(JobOf(0, early, none, unsent));
  links.a.Queue(JobOf(1, late, all, unsent));
  ASSERT_TRUE(*links.a.Flush());
  ASSERT_TRUE(*links.b.Receive(links.at_b));
  EXPECT_EQ(links.at_b.floats[1], late);
  EXPECT_TRUE(links.at_b.floats[0].empty());
  EXPECT_EQ(unsent, 1);
  none = 60;  // now a part of it
  ASSERT_TRUE(*links.a.Flush());
  none = 100;
  ASSERT_TRUE(*links.a.Flush());
  ASSERT_TRUE(*links.b.Receive(links.at_b));
  EXPECT_EQ(links.at_b.floats[0], early);
  EXPECT_EQ(unsent, 0);
}

TEST(StreamLink, AFarewellEndsTheStreamInOrderEvenAfterAHalfSentFrame) {
  TwoLinks links;
  Frame farewell;
  farewell.kind = FrameKind::kFarewell;
  const std::vector<float> some = Numbers(1, 1000);
  const int64_t all = 1000;
  int unsent = 0;
  links.a.Queue(JobOf(0, some, all, unsent));
  ASSERT_TRUE(*links.a.Flush());
  links.a.SendFarewell(farewell, "told to leave");
  links.sockets.first.Reset();
  ASSERT_TRUE(*links.b.Receive(links.at_b));
  EXPECT_EQ(links.at_b.floats[0], some);
  EXPECT_EQ(links.at_b.text, "told to leave");
  EXPECT_FALSE(*links.b.Receive(links.at_b)) << "the end after a farewell is no error";
}

TEST(StreamLink, AnEndWithoutAFarewellIsAnError) {
  TwoLinks links;
  links.sockets.first.Reset();
  EXPECT_EQ(links.b.Receive(links.at_b).status().code(), absl::StatusCode::kUnavailable);
}

TEST(StreamLink, FramesOfAnotherViewAreRefused) {
  TwoLinks links;
  StreamLink other(1, links.sockets.first.get(), ViewId{1, 1});
  other.QueueFrame(Frame{}, {});
  ASSERT_TRUE(other.Flush().ok());
  EXPECT_EQ(links.b.Receive(links.at_b).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StreamLink, DamagedStreamsAreRefusedOrHarmless) {
  std::string stream;
  {
    TwoLinks links;
    const std::vector<float> some = Numbers(1, 50);
    const int64_t all = 50;
    int unsent = 0;
    links.a.Queue(JobOf(0, some, all, unsent));
    ASSERT_TRUE(links.a.Flush().ok());
    links.a.QueueFrame(Frame{}, {});
    ASSERT_TRUE(links.a.Flush().ok());
    stream.resize(4096);
    const auto got = ReceiveSome(links.sockets.second.get(),
                                 {reinterpret_cast<std::byte*>(stream.data()), stream.size()});
    stream.resize(got->bytes);
  }
  int refused = 0;
  for (uint64_t k = 0; k < 5000; ++k) {
    TwoLinks links;
    std::string damaged = stream;
    for (uint64_t f = 0; f <= RandomAt(1, k) % 4; ++f) {
      damaged[RandomAt(2 + f, k) % damaged.size()] ^= static_cast<char>(1 << RandomAt(9, k) % 8);
    }
    damaged.resize(RandomAt(10, k) % (damaged.size() + 1));
    SendSome(links.sockets.first.get(),
             {reinterpret_cast<const std::byte*>(damaged.data()), damaged.size()})
        .IgnoreError();
    links.sockets.first.Reset();
    absl::StatusOr<bool> got = true;
    for (int i = 0; i < 4 && got.ok(); ++i) got = links.b.Receive(links.at_b);
    EXPECT_FALSE(got.ok());  // at the latest by the end of the stream
    refused += absl::IsInvalidArgument(got.status()) ? 1 : 0;
  }
  EXPECT_GT(refused, 1000);
}

TEST(StreamLink, ALinkThatHasNothingToSendIsPingedNowAndThen) {
  TwoLinks links;
  const std::vector<float> later = Numbers(1, 10);
  const int64_t none = 0;
  int unsent = 0;
  links.a.Queue(JobOf(0, later, none, unsent));  // a result that is not there yet
  const auto limit = std::chrono::milliseconds(80);
  TimePoint now = RealClock().Now();
  for (int ms = 0; ms < 100; ++ms, now += std::chrono::milliseconds(1)) {
    EXPECT_FALSE(links.a.LooksLost(now, limit));
    ASSERT_TRUE(links.a.Flush().ok());
  }
  ASSERT_TRUE(*links.b.Receive(links.at_b));
  EXPECT_GE(links.at_b.ended.size(), 8u);
  EXPECT_LE(links.at_b.ended.size(), 10u);
  for (FrameKind kind : links.at_b.ended) EXPECT_EQ(kind, FrameKind::kPing);
}

TEST(StreamLink, ASlowReaderIsNotALostOne) {
  const UniqueFd listener = ListenTcp({"127.0.0.1", 0}).value();
  const UniqueFd out = DialTcp({"127.0.0.1", PortOf(listener.get()).value()}, Soon()).value();
  StreamLink link(0, out.get(), kView);
  const std::vector<float> much = Numbers(1, 16 << 20);
  const int64_t all = 16 << 20;
  int unsent = 0;
  link.Queue(JobOf(0, much, all, unsent));
  const auto limit = std::chrono::milliseconds(200);
  const TimePoint end = RealClock().Now() + 4 * limit;
  while (RealClock().Now() < end) {
    ASSERT_TRUE(link.Flush().ok());
    EXPECT_FALSE(link.LooksLost(RealClock().Now(), limit));
    SleepFor(std::chrono::milliseconds(10));
  }
  EXPECT_GT(unsent, 0);
}

}  // namespace
}  // namespace everstep
