// wire: streams that never prove themselves: spoken to with gRPC itself, as a stranger would.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/wire/control.grpc.pb.h"
#include "everstep/wire/grpc_glue.h"
#include "everstep/wire/server.h"

namespace everstep {
namespace {

class Nothing : public ControlHandler {
 public:
  void OnMessage(SessionId, wire::FromWorker) override { ++calls; }
  void OnMessage(SessionId, wire::FromAgent) override { ++calls; }
  void OnClosed(SessionId) override { ++calls; }
  std::atomic<int> calls{0};
};

struct Stranger {
  explicit Stranger(int port)
      : stub(wire::Control::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                                        grpc::InsecureChannelCredentials()))),
        stream(stub->Worker(&context)) {}
  ~Stranger() {
    if (!ended) End();
  }
  grpc::Status End() {
    context.TryCancel();
    return Finish();
  }
  grpc::Status Finish() {
    ended = true;
    wire::ToWorker rest;
    while (stream->Read(&rest)) continue;
    return stream->Finish();
  }
  std::unique_ptr<wire::Control::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<wire::FromWorker, wire::ToWorker>> stream;
  bool ended = false;
};

class UnprovenTest : public ::testing::Test {
 protected:
  void Serve(Duration deadline, int max) {
    ControlServerOptions options{"127.0.0.1:0", {JobSecret::Generate()}, deadline, max};
    auto result = ControlServer::Start(std::move(options), &handler);
    ASSERT_TRUE(result.ok()) << result.status();
    server = std::move(*result);
  }
  Nothing handler;
  std::unique_ptr<ControlServer> server;
};

TEST_F(UnprovenTest, AStreamThatStaysSilentIsCutAtTheDeadline) {
  Serve(std::chrono::milliseconds(200), 8);
  Stranger stranger(server->port());
  wire::ToWorker order;
  ASSERT_TRUE(stranger.stream->Read(&order));
  EXPECT_TRUE(order.has_challenge());
  EXPECT_FALSE(stranger.stream->Read(&order));  // the end, though it never said a word
  EXPECT_FALSE(stranger.Finish().ok());
  EXPECT_EQ(handler.calls, 0);
}

TEST_F(UnprovenTest, AMessageInsteadOfAnAnswerEndsTheStream) {
  Serve(std::chrono::seconds(60), 8);
  Stranger stranger(server->port());
  wire::FromWorker hello;
  hello.mutable_hello()->set_incarnation(1);
  stranger.stream->Write(hello);
  EXPECT_EQ(stranger.Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(handler.calls, 0);
}

TEST_F(UnprovenTest, OnlySoManyMayBeUnprovenAtOnce) {
  Serve(std::chrono::seconds(60), 2);
  Stranger a(server->port()), b(server->port());
  wire::ToWorker order;
  ASSERT_TRUE(a.stream->Read(&order));
  ASSERT_TRUE(b.stream->Read(&order));
  Stranger c(server->port());
  EXPECT_EQ(c.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  a.End();
  for (int i = 0; i < 200; ++i) {  // its place is free once the server has seen the end
    Stranger d(server->port());
    if (d.stream->Read(&order)) return;
    SleepFor(std::chrono::milliseconds(20));
  }
  FAIL() << "the place of a stream that ended was never free again";
}

TEST_F(UnprovenTest, ShutdownDoesNotWaitForThem) {
  Serve(std::chrono::seconds(60), 2);
  Stranger stranger(server->port());
  wire::ToWorker order;
  ASSERT_TRUE(stranger.stream->Read(&order));
  server->Shutdown(After(RealClock(), std::chrono::seconds(1)));
  EXPECT_FALSE(stranger.stream->Read(&order));
}

}  // namespace
}  // namespace everstep
