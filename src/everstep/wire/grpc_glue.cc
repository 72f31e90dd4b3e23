// wire: small things between gRPC and the house.
#include "everstep/wire/grpc_glue.h"

#include <grpc/support/log.h>

#include <mutex>

#include "everstep/metrics/log.h"

namespace everstep {
namespace {

thread_local std::string* t_capture = nullptr;

void OnGrpcLog(gpr_log_func_args* args) {
  if (t_capture != nullptr && args->severity == GPR_LOG_SEVERITY_ERROR) {
    *t_capture += args->message;
    return;
  }
  log::Debug("wire", "gRPC: {}", args->message);
}

}  // namespace

// The codes of both are the same numbers with the same meaning.
absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void TakeOverGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(OnGrpcLog); });
}

GrpcErrorCapture::GrpcErrorCapture() { t_capture = &text_; }
GrpcErrorCapture::~GrpcErrorCapture() { t_capture = nullptr; }

}  // namespace everstep
