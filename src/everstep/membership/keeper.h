// membership: keeps one control stream: connects, and connects again after a loss. Internal to the
// room; what worker links and agent links share.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/metrics/log.h"
#include "everstep/wire/client.h"

namespace everstep {

// In and Out are protos. One thread of its own opens streams and calls `on_beat`.
template <typename In, typename Out>
class Keeper {
 public:
  using Stream = ControlStream<Out>;
  struct Hooks {
    std::function<absl::StatusOr<std::unique_ptr<Stream>>(StreamCallbacks<In>)> open;
    // What is said first on a new stream. Called with the keeper's lock held, before any Send on
    // that stream: nothing sent meanwhile is lost or overtakes it.
    std::function<std::vector<Out>()> on_open;
    std::function<void(In)> on_message;  // from threads of the stream, one at a time
    std::function<void()> on_beat;       // from the keeper's thread, every `beat_interval`
    Duration beat_interval{};            // 0: no beats
  };

  Keeper(std::string address, Hooks hooks, const Clock& clock)
      : address_(std::move(address)), hooks_(std::move(hooks)), clock_(clock) {}

  ~Keeper() { End(); }

  // Tries until `timeout` has passed, then keeps trying for ever in the background once it has been
  // connected.
  absl::Status Start(Duration timeout) {
    const Deadline deadline = After(clock_, timeout);
    thread_ = std::thread([this] { Run(); });
    absl::Status status = WaitUntilOpen(deadline);
    if (!status.ok()) End();
    if (absl::IsPermissionDenied(status)) status = WithExitCode(status, kExitConfiguration);
    return Annotate(status, "the coordinator cannot be reached");
  }

  // No callback runs when it returns, and none follows. Not from a callback.
  void End() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      quit_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    stream_.reset();
  }

  // Says something on the stream if there is one; `remember` runs under the same lock as on_open,
  // so that what is said is either in what on_open gives or sent here, never both nor neither.
  template <typename Remember>
  void Say(const Out& message, Remember remember) {
    std::lock_guard<std::mutex> lock(mutex_);
    remember();
    if (open_) stream_->Send(message);
  }

  // Ends the stream in order and opens no other.
  void Retire() {
    std::lock_guard<std::mutex> lock(mutex_);
    retired_ = true;
    if (open_) stream_->Finish();
    changed_.notify_all();
  }

  Duration AwayFor() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return open_ || retired_ ? Duration(0) : clock_.Now() - away_since_;
  }

 private:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(50);
  static constexpr Duration kLongestPause = std::chrono::seconds(1);
  static constexpr Duration kLongestOpening = std::chrono::seconds(10);

  absl::Status WaitUntilOpen(Deadline deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool settled =
        changed_.wait_until(lock, deadline, [&] { return open_ || Hopeless(last_error_); });
    if (open_) return absl::OkStatus();
    if (settled) return last_error_;
    if (!last_error_.ok()) return last_error_;
    return absl::DeadlineExceededError(absl::StrCat("no answer from ", address_));
  }

  // Trying again would not help.
  static bool Hopeless(const absl::Status& status) {
    return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
           absl::IsFailedPrecondition(status);
  }

  void Run() {
    Duration pause = kFirstPause;
    TimePoint next_try = clock_.Now(), next_beat = clock_.Now(), open_by;
    std::unique_lock<std::mutex> lock(mutex_);
    away_since_ = clock_.Now();
    while (!quit_) {
      if (lost_) {
        lost_ = false;
        std::unique_ptr<Stream> old = std::move(stream_);
        lock.unlock();
        old.reset();  // waits for its callbacks, which take the lock
        lock.lock();
        next_try = clock_.Now() + pause;
        pause = std::min(2 * pause, kLongestPause);
        continue;
      }
      if (open_) pause = kFirstPause;
      if (stream_ == nullptr && !retired_ && clock_.Now() >= next_try) {
        lock.unlock();
        auto stream = hooks_.open(Callbacks());
        lock.lock();
        // `opened` may have run already; it waits for the stream.
        if (stream.ok()) {
          stream_ = std::move(*stream);
          open_by = clock_.Now() + kLongestOpening;
          BeginIfOpened();
        } else {
          last_error_ = stream.status();
          next_try = clock_.Now() + kLongestPause;
        }
        changed_.notify_all();
        continue;
      }
      // Something listens that does not answer: a stopped coordinator, or another service.
      if (stream_ != nullptr && !open_ && clock_.Now() >= open_by) {
        stream_->Cancel();
        open_by = clock_.Now() + kLongestOpening;
      }
      const bool beats = open_ && hooks_.beat_interval > Duration(0);
      if (beats && clock_.Now() >= next_beat) {
        next_beat = clock_.Now() + hooks_.beat_interval;
        lock.unlock();
        hooks_.on_beat();
        lock.lock();
        continue;
      }
      Deadline until = clock_.Now() + kLongestPause;
      if (beats) until = std::min(until, next_beat);
      if (stream_ == nullptr && !retired_) until = std::min(until, next_try);
      changed_.wait_until(lock, until);
    }
  }

  StreamCallbacks<In> Callbacks() {
    StreamCallbacks<In> callbacks;
    callbacks.opened = [this] {
      std::lock_guard<std::mutex> lock(mutex_);
      proven_ = true;
      BeginIfOpened();
    };
    callbacks.message = [this](In message) { hooks_.on_message(std::move(message)); };
    callbacks.closed = [this](absl::Status why) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (open_) {
        away_since_ = clock_.Now();
        if (!retired_ && !quit_) {
          log::Warning("membership", "lost the coordinator: {}; trying again",
                       std::string(why.message()));
        }
      }
      open_ = proven_ = false;
      last_error_ = std::move(why);
      lost_ = true;
      changed_.notify_all();
    };
    return callbacks;
  }

  // Needs the lock.
  void BeginIfOpened() {
    if (open_ || !proven_ || stream_ == nullptr) return;
    open_ = true;
    last_error_ = absl::OkStatus();
    for (Out& message : hooks_.on_open()) stream_->Send(std::move(message));
    if (retired_) stream_->Finish();
    changed_.notify_all();
  }

  const std::string address_;
  const Hooks hooks_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Stream> stream_;
  TimePoint away_since_;
  absl::Status last_error_;
  bool proven_ = false;  // the stream has opened
  bool open_ = false;    // and what comes first has been said on it
  bool lost_ = false;    // the stream has closed and is to be thrown away
  bool retired_ = false;
  bool quit_ = false;

  std::thread thread_;
};

}  // namespace everstep
