// wire: one stream at the coordinator's end. Internal to the room.
//
// Rules that keep it whole: gRPC calls are made without the lock, because gRPC may call back in the
// same thread; Finish is called once, and only when no write or cancel is in flight, so that the
// stream's own memory, which goes after Finish, is there for them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/wire/grpc_glue.h"
#include "everstep/wire/handshake.h"
#include "everstep/wire/server.h"

namespace everstep {

class SessionBase {
 public:
  virtual ~SessionBase() = default;
  virtual void Send(const std::shared_ptr<const wire::ToWorker>&) {}
  virtual void Send(const std::shared_ptr<const wire::ToAgent>&) {}
  virtual void CloseAfterSent(const absl::Status& status) = 0;  // any thread
  virtual void Cut() = 0;                                       // any thread; at once
  virtual bool proven() const = 0;

  SessionId id = 0;
  std::string peer;
  TimePoint since;
};

// What a session needs of its server.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  virtual void Refused(const std::string& peer, const absl::Status& why) = 0;
  virtual void Gone(SessionId id, bool was_proven) = 0;  // last: the session may be freed after it
};

template <typename In, typename Out, StreamKind kKind>
class Session final : public grpc::ServerBidiReactor<In, Out>, public SessionBase {
 public:
  Session(grpc::CallbackServerContext* context, const JobSecret& secret, const JobSecret* join,
          ControlHandler* handler, SessionOwner* owner)
      : context_(context), handler_(handler), owner_(owner), handshake_(secret, kKind, join) {}

  // `self` keeps the session until gRPC is done with it.
  void Begin(std::shared_ptr<Session> self) {
    self_ = std::move(self);
    auto challenge = std::make_shared<Out>();
    *challenge->mutable_challenge() = handshake_.challenge();
    this->StartRead(&in_);
    Queue(std::move(challenge));
  }

  void Send(const std::shared_ptr<const Out>& message) override {
    // Nothing but the handshake passes before the proof: the caller cannot know the session then.
    if (!Queue(message)) Cut();
  }

  void CloseAfterSent(const absl::Status& status) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closing_) return;
      closing_ = true;
      status_ = ToGrpc(status);
    }
    Advance();
  }

  void Cut() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (finished_ || cancelling_) return;
      cancelling_ = true;
      Abandon();
    }
    context_->TryCancel();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      cancelling_ = false;
    }
    Advance();
  }

  bool proven() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return proven_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return CloseAfterSent(absl::OkStatus());
    if (proven()) {
      handler_->OnMessage(id, std::move(in_));
    } else if (!Admit()) {
      return;
    }
    in_.Clear();
    this->StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      writing_ = false;
      if (!queue_.empty()) queue_.pop_front();
      if (!ok) Abandon();
    }
    Advance();
  }

  void OnCancel() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Abandon();
    }
    Advance();
  }

  void OnDone() override {
    const std::shared_ptr<Session> self = std::move(self_);
    owner_->Gone(id, proven());
  }

 private:
  // False when the stream is stuck.
  bool Queue(std::shared_ptr<const Out> message) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closing_) return true;
      if (queue_.size() >= kMaxQueued) return false;
      queue_.push_back(std::move(message));
    }
    Advance();
    return true;
  }

  bool Admit() {
    auto proof = std::make_shared<Out>();
    const absl::Status status = handshake_.Check(in_.answer(), proof->mutable_proof());
    if (!status.ok()) {
      owner_->Refused(peer, status);
      CloseAfterSent(absl::PermissionDeniedError(
          absl::StrCat("the coordinator did not accept the proof: ", NoCommonSecret(kKind))));
      return false;
    }
    Queue(std::move(proof));
    std::lock_guard<std::mutex> lock(mutex_);
    proven_ = true;
    return true;
  }

  // Nothing more will get through. Needs the lock. The message being written stays until its write
  // is done.
  void Abandon() {
    if (!closing_) status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream was cut");
    closing_ = true;
    if (writing_) {
      queue_.erase(queue_.begin() + 1, queue_.end());
    } else {
      queue_.clear();
    }
  }

  // Starts the next write, or the end when nothing is left.
  void Advance() {
    const Out* next = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (finished_ || writing_ || cancelling_) return;
      if (!queue_.empty()) {
        writing_ = true;
        next = queue_.front().get();
      } else if (closing_) {
        finished_ = true;
      } else {
        return;
      }
    }
    if (next != nullptr) {
      this->StartWrite(next);
    } else {
      this->Finish(status_);
    }
  }

  grpc::CallbackServerContext* const context_;  // gRPC's; lives until OnDone
  ControlHandler* const handler_;
  SessionOwner* const owner_;
  const ServerHandshake handshake_;
  std::shared_ptr<Session> self_;
  In in_;

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Out>> queue_;  // the front is being written when writing_
  bool proven_ = false;
  bool writing_ = false;
  bool cancelling_ = false;
  bool closing_ = false;   // no new message is taken; Finish comes once the queue is empty
  bool finished_ = false;  // Finish was called
  grpc::Status status_;
};

}  // namespace everstep
