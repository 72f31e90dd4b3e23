// collective: the endpoint's doors: strangers, other views, absent members, other shapes.
#include "everstep/collective/endpoint.h"

#include <gtest/gtest.h>

#include <atomic>

#include "everstep/collective/connector.h"
#include "everstep/collective/test_world.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;

const ArenaShape kShape = {{500}, 4};

// A connection to one of the doors of a member.
UniqueFd Knock(EndpointWorld& world, int rank, bool by_unix) {
  const Member& m = world.view().members[rank];
  return by_unix ? DialAbstract(UnixNameOf(world.secret(), m.incarnation), Soon()).value()
                 : DialTcp(HostPort::Parse(m.data_address).value(), Soon()).value();
}

// Whether the other end closes the connection before long.
bool IsDropped(int socket, int64_t within_ms) {
  std::byte bytes[64];
  const Deadline limit = Soon(within_ms);
  while (RealClock().Now() < limit) {
    const auto got = ReceiveSome(socket, absl::MakeSpan(bytes));
    if (!got.ok() || got->end_of_file) return true;
    SleepFor(milliseconds(1));
  }
  return false;
}

void ExpectWorks(std::vector<std::unique_ptr<Communicator>>& all) {
  OnThreads(static_cast<int>(all.size()), [&](int r) {
    ASSERT_NE(all[r], nullptr);
    const std::vector<Part> parts = FillParts(*all[r], kShape, 1, 0, 0);
    const auto ticket = all[r]->Reduce(0, 0, parts, Soon());
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    ASSERT_TRUE(all[r]->Wait(*ticket, Soon()).ok());
    ASSERT_TRUE(ResultIsDefined(*all[r], kShape, 1, 0, 0));
  });
}

class Doors : public ::testing::TestWithParam<bool> {  // by unix socket?
 protected:
  View TwoMembers(int64_t id = 1) const { return ViewOf({"a", GetParam() ? "a" : "b"}, 2, id); }
};

TEST_P(Doors, GarbageIsDroppedAndDisturbsNobody) {
  EndpointWorld world(TwoMembers(), kShape);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(Knock(world, i % 2, GetParam()));
    std::vector<std::byte> garbage(1 + i * 37);
    for (size_t k = 0; k < garbage.size(); ++k) garbage[k] = std::byte(RandomAt(i, k));
    SendSome(strangers.back().get(), garbage).IgnoreError();
  }
  auto all = world.Connect();
  ExpectWorks(all);
  for (int i = 2; i < 20; ++i) EXPECT_TRUE(IsDropped(strangers[i].get(), 2000)) << i;
}

TEST_P(Doors, AHelloWithoutTheSecretGetsAChallengeAndNoMore) {
  EndpointWorld world(TwoMembers(), kShape);
  const JobSecret other = JobSecret::Generate();
  const UniqueFd socket = Knock(world, 0, GetParam());
  Nonces nonces;
  nonces.dialer = MakeNonce();
  ASSERT_TRUE(SendAll(socket.get(), EncodeHello(nonces.dialer), Soon()).ok());
  HelloBytes challenge;
  ASSERT_TRUE(ReceiveAll(socket.get(), absl::MakeSpan(challenge), Soon()).ok());
  ASSERT_TRUE(DecodeHello(challenge, nonces.listener));
  const Claim claim = {world.view().id, 1, 0, 1001, 1000};
  ASSERT_TRUE(SendAll(socket.get(), EncodeClaim(other, nonces, claim), Soon()).ok());
  EXPECT_TRUE(IsDropped(socket.get(), 2000));
  auto all = world.Connect();
  ExpectWorks(all);
}

TEST_P(Doors, SlowAndIdleStrangersNeitherKeepMembersOutNorStay) {
  const JobSecret secret = JobSecret::Generate();
  EndpointOptions options;
  options.incarnation = 1000;
  options.first_port = options.last_port = 0;
  options.acceptor.handshake_limit = milliseconds(300);
  options.acceptor.max_pending = 4;
  auto first = Endpoint::Make(secret, options).value();
  options.incarnation = 1001;
  auto second = Endpoint::Make(secret, options).value();
  ASSERT_TRUE(first->Prepare(kShape).ok() && second->Prepare(kShape).ok());
  View view = TwoMembers();
  view.members[0].data_address = first->data_address();
  view.members[1].data_address = second->data_address();

  std::vector<UniqueFd> idle;
  const auto knock = [&] {
    return GetParam() ? DialAbstract(UnixNameOf(secret, 1000), Soon()).value()
                      : DialTcp(HostPort::Parse(first->data_address()).value(), Soon()).value();
  };
  for (int i = 0; i < 10; ++i) idle.push_back(knock());
  std::atomic<bool> stop{false};
  std::thread slow([&] {
    const UniqueFd socket = knock();
    const HelloBytes hello = EncodeHello(MakeNonce());
    for (size_t i = 0; !stop; i = (i + 1) % hello.size()) {
      SendSome(socket.get(), absl::MakeConstSpan(hello).subspan(i, 1)).IgnoreError();
      SleepFor(milliseconds(20));
    }
  });
  const TimePoint begin = RealClock().Now();
  std::vector<std::unique_ptr<Communicator>> all(2);
  OnThreads(2, [&](int r) {
    auto c = (r == 0 ? first : second)->Connect(view, 1000 + r, Soon());
    ASSERT_TRUE(c.ok()) << c.status();
    all[r] = *std::move(c);
  });
  EXPECT_LT(ToMilliseconds(RealClock().Now() - begin), 2000);
  ExpectWorks(all);
  for (const UniqueFd& socket : idle) EXPECT_TRUE(IsDropped(socket.get(), 2000));
  stop = true;
  slow.join();
}

TEST_P(Doors, OneWithAnotherSecretCannotTakeAPlace) {
  EndpointWorld world(TwoMembers(), kShape);
  EndpointOptions options;
  options.incarnation = 1001;  // says it is rank 1
  options.first_port = options.last_port = 0;
  auto impostor = Endpoint::Make(JobSecret::Generate(), options).value();
  ASSERT_TRUE(impostor->Prepare(kShape).ok());
  View seen_by_impostor = world.view();
  if (GetParam()) seen_by_impostor.members[1].host = "elsewhere";  // so that it dials by TCP
  const auto entered = impostor->Connect(seen_by_impostor, 1001, Soon(300));
  EXPECT_EQ(entered.status().code(), absl::StatusCode::kDeadlineExceeded) << entered.status();
  auto all = world.Connect();
  ExpectWorks(all);
}

TEST_P(Doors, AMemberMayComeLongBeforeTheOthers) {
  EndpointWorld world(TwoMembers(), kShape);
  std::vector<std::unique_ptr<Communicator>> all(2);
  OnThreads(2, [&](int r) {
    if (r == 0) SleepFor(milliseconds(150));
    auto c = world.endpoint(r).Connect(world.view(), 1000 + r, Soon());
    ASSERT_TRUE(c.ok()) << c.status();
    all[r] = *std::move(c);
  });
  ExpectWorks(all);
}

TEST_P(Doors, APastViewIsRefused) {
  EndpointWorld world(TwoMembers(5), kShape);
  {
    auto all = world.Connect();
    ExpectWorks(all);
  }
  View past = world.view();
  past.id.id = 4;
  const TimePoint begin = RealClock().Now();
  const auto c = world.endpoint(1).Connect(past, 1001, Soon());
  EXPECT_EQ(c.status().code(), absl::StatusCode::kUnavailable) << c.status();
  EXPECT_NE(c.status().message().find("refused the link"), absl::string_view::npos);
  EXPECT_LT(ToMilliseconds(RealClock().Now() - begin), 2000);
}

TEST_P(Doors, AnAbsentMemberIsNamedAtTheDeadline) {
  EndpointWorld world(TwoMembers(), kShape);
  for (int r : {0, 1}) {
    const auto c = world.endpoint(r).Connect(world.view(), 1000 + r, Soon(150));
    EXPECT_EQ(c.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_NE(c.status().message().find(r == 0 ? "worker:1" : "worker:0"), absl::string_view::npos)
        << c.status();
    EXPECT_EQ(BlamedPeer(c.status()), 1 - r);
  }
}

TEST_P(Doors, AbandonEndsAConnectOfThatViewAndNotOfTheNext) {
  EndpointWorld world(TwoMembers(), kShape);
  for (int r : {0, 1}) {
    TimePoint abandoned;
    std::thread other([&] {
      SleepFor(milliseconds(100));
      abandoned = RealClock().Now();
      world.endpoint(r).Abandon(world.view().id);
    });
    const auto c = world.endpoint(r).Connect(world.view(), 1000 + r, Soon());
    const Duration took = RealClock().Now() - abandoned;
    other.join();
    EXPECT_EQ(c.status().code(), absl::StatusCode::kAborted) << c.status();
    EXPECT_LT(ToMilliseconds(took), 100);
    // Also when it comes first.
    EXPECT_EQ(world.endpoint(r).Connect(world.view(), 1000 + r, Soon()).status().code(),
              absl::StatusCode::kAborted);
  }
  ++world.view().id.id;
  auto all = world.Connect();
  ExpectWorks(all);
}

TEST_P(Doors, OtherBucketsAreAConfigurationError) {
  const JobSecret secret = JobSecret::Generate();
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  View view = TwoMembers();
  for (int r : {0, 1}) {
    EndpointOptions options;
    options.incarnation = 1000 + static_cast<uint64_t>(r);
    options.first_port = options.last_port = 0;
    endpoints.push_back(Endpoint::Make(secret, options).value());
    ASSERT_TRUE(endpoints[r]->Prepare({{500 + r}, 4}).ok());
    view.members[r].data_address = endpoints[r]->data_address();
  }
  OnThreads(2, [&](int r) {
    const auto c = endpoints[r]->Connect(view, 1000 + r, Soon());
    EXPECT_EQ(c.status().code(), absl::StatusCode::kInvalidArgument) << c.status();
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Doors, ::testing::Values(false, true),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "Unix" : "Tcp";
                         });

TEST(Endpoint, AbandonEndsAConnectToAProcessThatIsStopped) {
  // Its kernel takes the connection; nobody ever answers.
  const UniqueFd stopped = ListenTcp({"127.0.0.1", 0}).value();
  EndpointWorld world(ViewOf({"a", "b"}, 2), kShape);
  world.view().members[0].data_address =
      HostPort{"127.0.0.1", PortOf(stopped.get()).value()}.ToString();
  TimePoint abandoned;
  std::thread other([&] {
    SleepFor(milliseconds(100));
    abandoned = RealClock().Now();
    world.endpoint(1).Abandon(world.view().id);
  });
  const auto c = world.endpoint(1).Connect(world.view(), 1001, Soon());
  const Duration took = RealClock().Now() - abandoned;
  other.join();
  EXPECT_EQ(c.status().code(), absl::StatusCode::kAborted) << c.status();
  EXPECT_LT(ToMilliseconds(took), 100);
}

TEST(Endpoint, ViewsThatDoNotFitAreRefused) {
  EndpointWorld world(ViewOf({"a"}, 1), kShape);
  const auto code = [&](const View& view, Incarnation self) {
    return world.endpoint(0).Connect(view, self, Soon(100)).status().code();
  };
  const auto bad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(world.view(), 7), bad);  // not a member
  View view = world.view();
  view.members[0].incarnation = 9;
  EXPECT_EQ(code(view, 9), bad);  // not this process
  view = world.view();
  view.num_replicas = 2;  // nobody runs replica 1
  EXPECT_EQ(code(view, 1000), bad);
  EXPECT_EQ(code(world.view(), 1000), absl::StatusCode::kOk);

  const auto unprepared = [&] {
    EndpointOptions options;
    options.incarnation = 1000;
    options.first_port = options.last_port = 0;
    return Endpoint::Make(JobSecret::Generate(), options).value();
  }();
  EXPECT_EQ(unprepared->Connect(world.view(), 1000, Soon(100)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Endpoint, TakesTheFirstFreePortOfItsRange) {
  const JobSecret secret = JobSecret::Generate();
  EndpointOptions options;
  options.first_port = 29950;
  options.last_port = 29952;
  std::vector<std::unique_ptr<Endpoint>> made;
  absl::Status last;
  for (uint64_t i = 1; i <= 4 && last.ok(); ++i) {
    options.incarnation = i;
    auto endpoint = Endpoint::Make(secret, options);
    last = endpoint.status();
    if (endpoint.ok()) made.push_back(*std::move(endpoint));
  }
  ASSERT_GE(made.size(), 2u);
  EXPECT_NE(made[0]->data_address(), made[1]->data_address());
  EXPECT_EQ(last.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(last.message().find("29950-29952"), absl::string_view::npos) << last;
}

}  // namespace
}  // namespace everstep
