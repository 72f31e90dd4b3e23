// data: work ahead.
#include "everstep/data/work_ahead.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"

namespace everstep {

namespace {
constexpr std::chrono::milliseconds kCancelCheck{20};
}

WorkAhead::WorkAhead(int threads, int depth, const Clock& clock, Make make)
    : depth_(std::max(depth, 1)), clock_(clock), make_(std::move(make)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkAhead::~WorkAhead() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  stopping_.Set();
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkAhead::Inside(Key key) const {
  return key.first >= steps_.begin && key.first < steps_.end && key.second >= replica_begin_ &&
         key.second < replica_end_;
}

WorkAhead::Key WorkAhead::Following(Key key) const {
  return key.second + 1 < replica_end_ ? Key{key.first, key.second + 1}
                                       : Key{key.first + 1, replica_begin_};
}

bool WorkAhead::FindNext() {
  while (Inside(next_) && slots_.count(next_) != 0) next_ = Following(next_);
  return Inside(next_);
}

void WorkAhead::DropBefore(Step step) {
  oldest_ = step;
  for (auto at = slots_.begin(); at != slots_.end() && at->first.first < step;) {
    at = at->second.made ? slots_.erase(at) : std::next(at);
  }
}

void WorkAhead::Expect(StepRange steps, int replica_begin, int replica_end) {
  if (threads_.empty()) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    steps_ = steps;
    replica_begin_ = replica_begin;
    replica_end_ = replica_end;
    next_ = {steps.begin, replica_begin};
    oldest_ = steps.begin;
    for (auto at = slots_.begin(); at != slots_.end();) {
      const bool unwanted = at->second.made && !Inside(at->first);
      at = unwanted ? slots_.erase(at) : std::next(at);
    }
  }
  work_.notify_all();
}

std::optional<WorkAhead::Result> WorkAhead::Take(Step step, int r, const Cancel& cancel,
                                                 Deadline deadline) {
  if (threads_.empty()) return std::nullopt;
  const Key key{step, r};
  std::unique_lock<std::mutex> lock(mu_);
  DropBefore(step);
  auto slot = slots_.find(key);
  if (slot == slots_.end()) {
    // The caller makes it; so do not make it too, nor what came before it.
    if (Inside(key) && next_ <= key) next_ = Following(key);
    work_.notify_all();
    return std::nullopt;
  }
  while (!slot->second.made) {
    if (cancel.IsSet()) return absl::CancelledError("told to stop waiting for a batch");
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the data of step ", step, ", replica ", r, " did not come in time"));
    }
    done_.wait_for(lock, kCancelCheck);
    slot = slots_.find(key);  // one that left the window meanwhile is thrown away when made
    if (slot == slots_.end()) return std::nullopt;
  }
  const Slot taken = std::move(slot->second);
  slots_.erase(slot);
  work_.notify_one();
  if (!taken.status.ok()) return taken.status;
  return taken.batch;
}

void WorkAhead::Loop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    while (!stop_ && (static_cast<int>(slots_.size()) >= depth_ || !FindNext())) work_.wait(lock);
    if (stop_) return;
    const Key key = next_;
    next_ = Following(next_);
    const auto slot = slots_.emplace(key, Slot()).first;  // stays until it is made
    lock.unlock();
    Result result = make_(key.first, key.second, stopping_);
    lock.lock();
    if (Inside(key) && key.first >= oldest_) {
      slot->second = {true, result.status(), result.ok() ? *std::move(result) : nullptr};
    } else {
      slots_.erase(slot);
    }
    done_.notify_all();
  }
}

}  // namespace everstep
