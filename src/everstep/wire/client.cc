// wire: ControlStream over gRPC's callback API.
#include "everstep/wire/client.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/wire/control.grpc.pb.h"
#include "everstep/wire/grpc_glue.h"
#include "everstep/wire/handshake.h"

namespace everstep {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  TakeOverGrpcLog();
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A connection of its own for each try: no back-off or address of an earlier one.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // bounds one connect
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetMaxReceiveMessageSize(kMaxBytesFromServer);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

// Set by the last callback. Apart from the reactor, so that whoever waits for it may destroy the
// reactor while that callback is still on its way out.
class Done {
 public:
  void Set() {
    std::lock_guard<std::mutex> lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// The gRPC side of a stream. As in the server, gRPC is never called under the lock. A hold, taken
// before the call starts and given back when nothing will be written any more, lets writes start
// from any thread. It must be destroyed outside gRPC's threads: with the last channel of a process
// gRPC ends its callback threads and waits for them, which one of them could not.
template <typename In, typename Out, StreamKind kKind>
class Reactor final : public grpc::ClientBidiReactor<Out, In> {
 public:
  Reactor(const ControlClientOptions& options, StreamCallbacks<In> callbacks)
      : address_(options.address),
        secret_(options.credentials.secret),
        callbacks_(std::move(callbacks)),
        handshake_(secret_, kKind),
        stub_(wire::Control::NewStub(MakeChannel(address_))) {}

  void Begin() {
    Call(this);
    this->AddHold();
    this->StartRead(&in_);
    this->StartCall();
  }

  void Send(Out message) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (over_ || finishing_) return;
      if (queue_.size() >= kMaxQueued) return Fail(absl::UnavailableError("it takes no messages"));
      queue_.push_back(std::move(message));
    }
    Advance();
  }

  void Finish() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      finishing_ = true;
    }
    Advance();
  }

  void Cancel() { context_.TryCancel(); }

  void WaitUntilDone() { done_->Wait(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        over_ = true;
      }
      return Advance();
    }
    Take();
    in_.Clear();
    this->StartRead(&in_);
  }

  void OnWriteDone(bool ok) override { WriteIsDone(ok); }
  void OnWritesDoneDone(bool ok) override { WriteIsDone(ok); }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Done> done = done_;
    callbacks_.closed(Outcome(status));
    done->Set();  // this may be gone from here on
  }

 private:
  void Call(grpc::ClientBidiReactor<wire::FromWorker, wire::ToWorker>* reactor) {
    stub_->async()->Worker(&context_, reactor);
  }
  void Call(grpc::ClientBidiReactor<wire::FromAgent, wire::ToAgent>* reactor) {
    stub_->async()->Agent(&context_, reactor);
  }

  void Take() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!error_.ok()) return;  // cancelled; what still comes is not heard
    }
    if (opened_) return callbacks_.message(std::move(in_));
    if (in_.has_challenge()) {
      Out answer;
      const absl::Status status = handshake_.Answer(in_.challenge(), answer.mutable_answer());
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status.ok()) return Fail(status);
      answer_ = std::move(answer);
      answering_ = true;
    } else {
      const absl::Status status = handshake_.Check(in_.proof());
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status.ok()) return Fail(status);
      opened_ = true;
    }
    if (opened_ && callbacks_.opened) callbacks_.opened();
    Advance();
  }

  // Needs the lock. TryCancel only posts to gRPC's threads.
  void Fail(absl::Status status) {
    if (error_.ok()) error_ = std::move(status);
    context_.TryCancel();
  }

  absl::Status Outcome(const grpc::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status why = error_.ok() ? FromGrpc(status) : error_;
    if (why.ok()) return absl::CancelledError(absl::StrCat(address_, " ended the stream"));
    return absl::Status(why.code(), absl::StrCat(address_, ": ", why.message()));
  }

  void WriteIsDone(bool ok) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      writing_ = false;
      if (!ok) over_ = true;
    }
    Advance();
  }

  void Advance() {
    enum { kWrite, kWritesDone, kRelease } what;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (writing_ || released_) return;
      if (over_) {
        released_ = true;
        what = kRelease;
      } else if (answering_) {
        answering_ = false;
        writing_ = true;
        out_ = std::move(answer_);
        what = kWrite;
      } else if (opened_ && !queue_.empty()) {
        writing_ = true;
        out_ = std::move(queue_.front());
        queue_.pop_front();
        what = kWrite;
      } else if (opened_ && finishing_ && !said_done_) {
        said_done_ = true;
        writing_ = true;
        what = kWritesDone;
      } else {
        return;
      }
    }
    if (what == kWrite) {
      this->StartWrite(&out_);
    } else if (what == kWritesDone) {
      this->StartWritesDone();
    } else {
      this->RemoveHold();
    }
  }

  const std::string address_;
  const JobSecret secret_;
  const StreamCallbacks<In> callbacks_;
  ClientHandshake handshake_;
  const std::unique_ptr<wire::Control::Stub> stub_;
  grpc::ClientContext context_;
  const std::shared_ptr<Done> done_ = std::make_shared<Done>();
  In in_;
  Out out_;  // being written

  std::mutex mutex_;
  std::deque<Out> queue_;
  Out answer_;
  absl::Status error_;
  bool answering_ = false;  // answer_ is to be written first
  bool opened_ = false;
  bool writing_ = false;
  bool finishing_ = false;  // no more will be sent
  bool said_done_ = false;
  bool over_ = false;      // the stream is broken or ended: nothing more is written
  bool released_ = false;  // the hold is given back
};

template <typename In, typename Out, StreamKind kKind>
class Stream final : public ControlStream<Out> {
 public:
  Stream(const ControlClientOptions& options, StreamCallbacks<In> callbacks)
      : reactor_(std::make_unique<Reactor<In, Out, kKind>>(options, std::move(callbacks))) {
    reactor_->Begin();
  }
  ~Stream() override {
    reactor_->Cancel();
    reactor_->WaitUntilDone();
  }
  void Send(Out message) override { reactor_->Send(std::move(message)); }
  void Finish() override { reactor_->Finish(); }
  void Cancel() override { reactor_->Cancel(); }

 private:
  const std::unique_ptr<Reactor<In, Out, kKind>> reactor_;
};

template <typename In, typename Out, StreamKind kKind>
absl::StatusOr<std::unique_ptr<ControlStream<Out>>> Open(const ControlClientOptions& options,
                                                         StreamCallbacks<In> callbacks) {
  if (absl::Status status = CheckAddress(options.address, options.credentials); !status.ok()) {
    return status;
  }
  std::unique_ptr<ControlStream<Out>> stream =
      std::make_unique<Stream<In, Out, kKind>>(options, std::move(callbacks));
  return stream;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlStream<wire::FromWorker>>> OpenWorkerStream(
    const ControlClientOptions& options, StreamCallbacks<wire::ToWorker> callbacks) {
  return Open<wire::ToWorker, wire::FromWorker, StreamKind::kWorker>(options, std::move(callbacks));
}

absl::StatusOr<std::unique_ptr<ControlStream<wire::FromAgent>>> OpenAgentStream(
    const ControlClientOptions& options, StreamCallbacks<wire::ToAgent> callbacks) {
  return Open<wire::ToAgent, wire::FromAgent, StreamKind::kAgent>(options, std::move(callbacks));
}

}  // namespace everstep
