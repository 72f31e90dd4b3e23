// wire: streams on loopback, and the handshake alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/socket.h"
#include "everstep/wire/client.h"
#include "everstep/wire/handshake.h"
#include "everstep/wire/server.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr Duration kLong = std::chrono::seconds(20);

// A record of calls that tests wait on.
class Watched {
 public:
  template <typename Condition>
  bool Wait(Condition condition, Duration limit = kLong) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_until(lock, After(RealClock(), limit), condition);
  }
  template <typename Change>
  void Do(Change change) {
    std::lock_guard<std::mutex> lock(mutex);
    change();
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
};

class Recorder : public ControlHandler, public Watched {
 public:
  void OnMessage(SessionId session, wire::FromWorker message) override {
    Do([&] {
      last = session;
      spoke.insert(session);
      steps.push_back(message.beat().step());
    });
  }
  void OnMessage(SessionId session, wire::FromAgent message) override {
    Do([&] {
      last = session;
      agents.push_back(message.register_().agent());
    });
  }
  void OnClosed(SessionId session) override {
    Do([&] { closed.push_back(session); });
  }
  SessionId last = 0;
  std::vector<int64_t> steps;
  std::vector<std::string> agents;
  std::vector<SessionId> closed;
  std::set<SessionId> spoke;
};

struct Agent : Watched {
  Agent(const std::string& address, const JobSecret& secret) {
    StreamCallbacks<wire::ToAgent> callbacks;
    callbacks.opened = [this] { Do([&] { opened = true; }); };
    callbacks.closed = [this](absl::Status why) { Do([&] { end = why; }); };
    auto result = OpenAgentStream({address, {secret}}, std::move(callbacks));
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) stream = std::move(*result);
  }
  void Registers(const std::string& name) {
    wire::FromAgent message;
    message.mutable_register_()->set_agent(name);
    stream->Send(message);
  }
  bool opened = false;
  std::optional<absl::Status> end;
  std::unique_ptr<ControlStream<wire::FromAgent>> stream;  // last: ends first
};

struct Client : Watched {
  explicit Client(const std::string& address, const JobSecret& secret) {
    StreamCallbacks<wire::ToWorker> callbacks;
    callbacks.opened = [this] { Do([&] { opened = true; }); };
    callbacks.message = [this](wire::ToWorker m) {
      Do([&] { terms.push_back(m.welcome().term()); });
    };
    callbacks.closed = [this](absl::Status why) { Do([&] { end = why; }); };
    auto result = OpenWorkerStream({address, {secret}}, std::move(callbacks));
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) stream = std::move(*result);
  }
  void SendBeat(int64_t step) {
    wire::FromWorker message;
    message.mutable_beat()->set_step(step);
    stream->Send(message);
  }
  bool opened = false;
  std::vector<int64_t> terms;
  std::optional<absl::Status> end;
  std::unique_ptr<ControlStream<wire::FromWorker>> stream;  // last: ends first
};

class WireTest : public ::testing::Test {
 protected:
  void Serve(ControlServerOptions options) {
    auto result = ControlServer::Start(std::move(options), &recorder);
    ASSERT_TRUE(result.ok()) << result.status();
    server = std::move(*result);
    address = absl::StrCat("127.0.0.1:", server->port());
  }
  void Serve() { Serve({"127.0.0.1:0", {secret}}); }
  UniqueFd Dial() {
    auto fd = DialTcp({"127.0.0.1", server->port()}, After(RealClock(), kLong));
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() ? std::move(*fd) : UniqueFd();
  }

  const JobSecret secret = JobSecret::Generate();
  Recorder recorder;
  std::unique_ptr<ControlServer> server;
  std::string address;
};

TEST_F(WireTest, MessagesGoBothWaysInOrder) {
  Serve();
  Client client(address, secret);
  for (int i = 0; i < 1000; ++i) client.SendBeat(i);
  ASSERT_TRUE(recorder.Wait([&] { return recorder.steps.size() == 1000; }));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(recorder.steps[i], i);
  EXPECT_TRUE(client.opened);
  for (int i = 0; i < 1000; ++i) {
    wire::ToWorker order;
    order.mutable_welcome()->set_term(i);
    server->Send({recorder.last}, order);
  }
  ASSERT_TRUE(client.Wait([&] { return client.terms.size() == 1000; }));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.terms[i], i);
  EXPECT_THAT(server->PeerOf(recorder.last), HasSubstr("127.0.0.1:"));
}

TEST_F(WireTest, TheServerHearsTheEndOfAStreamOnce) {
  Serve();
  {
    Client client(address, secret);
    client.SendBeat(1);
    ASSERT_TRUE(recorder.Wait([&] { return !recorder.steps.empty(); }));
  }
  ASSERT_TRUE(recorder.Wait([&] { return !recorder.closed.empty(); }));
  EXPECT_THAT(recorder.closed, ElementsAre(recorder.last));
  wire::ToWorker order;
  server->Send({recorder.last}, order);  // passed over
}

TEST_F(WireTest, AClientThatFinishesIsAnsweredByAnOrderlyEnd) {
  Serve();
  Client client(address, secret);
  client.SendBeat(1);
  client.stream->Finish();
  ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  EXPECT_EQ(client.end->code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(recorder.Wait([&] { return !recorder.closed.empty(); }));
  EXPECT_THAT(recorder.steps, ElementsAre(1));
}

TEST_F(WireTest, WhatWasSentBeforeCloseOrShutdownArrives) {
  Serve();
  Client client(address, secret);
  client.SendBeat(1);
  ASSERT_TRUE(recorder.Wait([&] { return !recorder.steps.empty(); }));
  wire::ToWorker order;
  order.mutable_welcome()->set_term(7);
  for (int i = 0; i < 100; ++i) server->Send({recorder.last}, order);
  server->Shutdown(After(RealClock(), kLong));
  ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  EXPECT_EQ(client.terms.size(), 100u);
  EXPECT_THAT(recorder.closed, ElementsAre(recorder.last));
}

TEST_F(WireTest, AClientWithAnotherSecretIsDroppedBeforeItSaysAnything) {
  Serve();
  Client stranger(address, JobSecret::Generate());
  stranger.SendBeat(1);
  ASSERT_TRUE(stranger.Wait([&] { return stranger.end.has_value(); }));
  EXPECT_EQ(stranger.end->code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(stranger.end->message()), HasSubstr("secret"));
  EXPECT_FALSE(stranger.opened);
  Client client(address, secret);
  client.SendBeat(2);
  ASSERT_TRUE(recorder.Wait([&] { return !recorder.steps.empty(); }));
  EXPECT_THAT(recorder.steps, ElementsAre(2));
}

TEST_F(WireTest, AnAgentMayProveItselfWithEitherSecret) {
  const JobSecret join = JobSecret::Generate();
  ControlServerOptions options{"127.0.0.1:0", {secret}};
  options.join_secret = join;
  Serve(std::move(options));
  Agent of_job(address, secret), by_hand(address, join);
  of_job.Registers("of job");
  by_hand.Registers("by hand");
  ASSERT_TRUE(recorder.Wait([&] { return recorder.agents.size() == 2; }));
  EXPECT_THAT(recorder.agents, UnorderedElementsAre("of job", "by hand"));
  // They have seen a proof by the secret that they hold.
  EXPECT_TRUE(of_job.Wait([&] { return of_job.opened; }));
  EXPECT_TRUE(by_hand.Wait([&] { return by_hand.opened; }));
}

TEST_F(WireTest, AnAgentWithNeitherSecretIsToldBothPossibilities) {
  ControlServerOptions options{"127.0.0.1:0", {secret}};
  options.join_secret = JobSecret::Generate();
  for (const bool join_there : {true, false}) {
    if (!join_there) options.join_secret.reset();
    Serve(options);
    Agent stranger(address, JobSecret::Generate());
    stranger.Registers("stranger");
    ASSERT_TRUE(stranger.Wait([&] { return stranger.end.has_value(); }));
    EXPECT_EQ(stranger.end->code(), absl::StatusCode::kPermissionDenied);
    const std::string text(stranger.end->message());
    EXPECT_THAT(text, HasSubstr(address));
    EXPECT_THAT(text, HasSubstr("another job's coordinator"));
    EXPECT_THAT(text, HasSubstr("another join secret"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_FALSE(stranger.opened);
    EXPECT_THAT(recorder.agents, IsEmpty());
  }
}

TEST_F(WireTest, AWorkerNeedsTheSecretOfTheJob) {
  const JobSecret join = JobSecret::Generate();
  ControlServerOptions options{"127.0.0.1:0", {secret}};
  options.join_secret = join;
  Serve(std::move(options));
  Client stranger(address, join);
  stranger.SendBeat(1);
  ASSERT_TRUE(stranger.Wait([&] { return stranger.end.has_value(); }));
  EXPECT_EQ(stranger.end->code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(stranger.end->message()), HasSubstr("does not hold the job's secret"));
  EXPECT_THAT(recorder.steps, IsEmpty());
}

TEST_F(WireTest, BytesThatAreNotOursHurtNobody) {
  Serve();
  std::vector<UniqueFd> sockets;
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(100000, '\xff'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0garbage", 40)}) {
    sockets.push_back(Dial());
    // The server may hang up half way.
    (void)SendAll(sockets.back().get(),
                  absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size()),
                  After(RealClock(), kLong));
  }
  Client client(address, secret);
  client.SendBeat(1);
  ASSERT_TRUE(recorder.Wait([&] { return !recorder.steps.empty(); }));
  EXPECT_THAT(recorder.agents, IsEmpty());
}

TEST_F(WireTest, ABusyPortIsToldWithItsAddress) {
  Serve();
  auto second = ControlServer::Start({address, {secret}}, &recorder);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("port in use"));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST_F(WireTest, APortIsFreeAgainAfterShutdown) {
  Serve();
  const std::string same = address;
  server->Shutdown(RealClock().Now());
  server.reset();
  Serve({same, {secret}});
}

TEST_F(WireTest, BeyondLoopbackNeedsLeave) {
  auto result = ControlServer::Start({"0.0.0.0:0", {secret}}, &recorder);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("--insecure"));
  EXPECT_TRUE(ControlServer::Start({"0.0.0.0:0", {secret, true}}, &recorder).ok());
  EXPECT_EQ(OpenWorkerStream({"192.0.2.1:1", {secret}}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(WireTest, NobodyThereIsToldWithAddressAndReason) {
  Serve();
  server->Shutdown(RealClock().Now());
  Client client(address, secret);
  ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  EXPECT_EQ(client.end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.end->message()), HasSubstr(address));
  EXPECT_THAT(std::string(client.end->message()), HasSubstr("refused"));
}

// With a process's last channel gRPC takes down its threads; a stream must not do that from one.
TEST_F(WireTest, AStreamMayBeTheLastOneOfItsProcess) {
  Serve();
  server->Shutdown(RealClock().Now());
  server.reset();
  for (int i = 0; i < 50; ++i) {
    Client client(address, secret);
    ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  }
}

TEST_F(WireTest, AnOversizedMessageCostsItsSenderTheStream) {
  Serve();
  Client client(address, secret);
  wire::FromWorker message;
  message.mutable_hello()->set_host(std::string(2 << 20, 'x'));
  client.stream->Send(message);
  ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  EXPECT_THAT(recorder.steps, IsEmpty());
}

TEST_F(WireTest, CancelEndsAStreamThatCannotConnect) {
  // Accepts, and never answers.
  auto listener = ListenTcp({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  Client client(absl::StrCat("127.0.0.1:", *PortOf(listener->get())), secret);
  client.stream->Cancel();
  ASSERT_TRUE(client.Wait([&] { return client.end.has_value(); }));
  EXPECT_EQ(client.end->code(), absl::StatusCode::kCancelled);
}

TEST_F(WireTest, StreamsMayComeAndGoWhileTheServerEnds) {
  Serve();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<Client>(address, secret));
      clients.back()->SendBeat(i);
    }
    if (round == 19) server->Shutdown(RealClock().Now());
  }
  server.reset();
  EXPECT_FALSE(recorder.spoke.empty());
  const std::set<SessionId> closed(recorder.closed.begin(), recorder.closed.end());
  EXPECT_EQ(closed.size(), recorder.closed.size());  // each once
  for (SessionId session : recorder.spoke) EXPECT_TRUE(closed.contains(session)) << session;
}

// ---- the handshake alone ----

TEST(Handshake, EachEndRefusesAnotherSecret) {
  const JobSecret ours = JobSecret::Generate(), other = JobSecret::Generate();
  for (const bool equal : {true, false}) {
    ServerHandshake server(ours, StreamKind::kWorker);
    ClientHandshake client(equal ? ours : other, StreamKind::kWorker);
    wire::Answer answer;
    wire::Proof proof;
    ASSERT_TRUE(client.Answer(server.challenge(), &answer).ok());
    EXPECT_EQ(server.Check(answer, &proof).ok(), equal);
    if (equal) {
      EXPECT_TRUE(client.Check(proof).ok());
    }
  }
}

TEST(Handshake, AServerWithoutTheSecretIsNotBelieved) {
  const JobSecret ours = JobSecret::Generate(), other = JobSecret::Generate();
  ServerHandshake impostor(other, StreamKind::kAgent);
  ClientHandshake client(ours, StreamKind::kAgent);
  wire::Answer answer;
  ASSERT_TRUE(client.Answer(impostor.challenge(), &answer).ok());
  wire::Proof proof;
  EXPECT_FALSE(impostor.Check(answer, &proof).ok());
  EXPECT_FALSE(client.Check(proof).ok());
  proof.set_proof(answer.proof());  // reflects what it heard
  EXPECT_FALSE(client.Check(proof).ok());
}

TEST(Handshake, AProofForOneKindOfStreamIsNoneForAnother) {
  const JobSecret ours = JobSecret::Generate();
  ServerHandshake server(ours, StreamKind::kAgent);
  ClientHandshake client(ours, StreamKind::kWorker);
  wire::Answer answer;
  wire::Proof proof;
  ASSERT_TRUE(client.Answer(server.challenge(), &answer).ok());
  EXPECT_FALSE(server.Check(answer, &proof).ok());
}

TEST(Handshake, TheJoinSecretIsAnsweredByTheJoinSecret) {
  const JobSecret ours = JobSecret::Generate(), join = JobSecret::Generate();
  for (const bool by_join : {true, false}) {
    ServerHandshake server(ours, StreamKind::kAgent, &join);
    ClientHandshake client(by_join ? join : ours, StreamKind::kAgent);
    wire::Answer answer;
    wire::Proof proof;
    ASSERT_TRUE(client.Answer(server.challenge(), &answer).ok());
    EXPECT_TRUE(server.Check(answer, &proof).ok());
    EXPECT_TRUE(client.Check(proof).ok());
  }
}

TEST(Handshake, AProofBeforeTheChallengeAndASecondChallengeAreRefused) {
  const JobSecret ours = JobSecret::Generate();
  ServerHandshake server(ours, StreamKind::kAgent);
  ClientHandshake client(ours, StreamKind::kAgent);
  wire::Answer answer;
  EXPECT_FALSE(client.Check({}).ok());
  EXPECT_FALSE(client.Answer({}, &answer).ok());
  EXPECT_TRUE(client.Answer(server.challenge(), &answer).ok());
  EXPECT_FALSE(client.Answer(server.challenge(), &answer).ok());
}

TEST(Credentials, OnlyAddressesOfThisHostAreLoopback) {
  for (const char* yes : {"127.0.0.1:1", "127.8.9.1:2", "localhost:3", "[::1]:4"}) {
    EXPECT_TRUE(IsLoopback(yes)) << yes;
  }
  for (const char* no :
       {"0.0.0.0:1", "127.example.com:2", "10.0.0.1:3", "[::]:4", "127.0.0.1", ""}) {
    EXPECT_FALSE(IsLoopback(no)) << no;
  }
}

TEST(Credentials, WhatIsNoAddressIsToldSo) {
  const Credentials credentials{JobSecret::Generate(), true};
  for (const char* no : {"", "host", ":29700", "host:", "host:port", "host:70000", "host:-1"}) {
    EXPECT_EQ(CheckAddress(no, credentials).code(), absl::StatusCode::kInvalidArgument) << no;
  }
  EXPECT_TRUE(CheckAddress("host:29700", credentials).ok());
}

}  // namespace
}  // namespace everstep
