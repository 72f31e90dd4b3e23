// wire: small things between gRPC and the house. Internal to the room: the only header here that
// may include gRPC, and only .cc files include it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"

namespace everstep {

absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// gRPC's own log lines become debug lines of ours. Idempotent.
void TakeOverGrpcLog();

// Collects what gRPC logs as an error in this thread while it lives: the only place where gRPC says
// why it could not listen.
class GrpcErrorCapture {
 public:
  GrpcErrorCapture();
  ~GrpcErrorCapture();
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Both ends: pings that show within 3 s that the other host has vanished. gRPC derives
// TCP_USER_TIMEOUT from these.
constexpr int kKeepaliveTimeMs = 1000;
constexpr int kKeepaliveTimeoutMs = 2000;

constexpr int kMaxBytesFromClients = 1 << 20;
constexpr int kMaxBytesFromServer = 64 << 20;  // views and clusters of thousands of members

// Messages queued in one direction of a stream before it counts as stuck.
constexpr size_t kMaxQueued = 8192;

}  // namespace everstep
