// membership: the coordinator of a program that runs alone.
#include "everstep/membership/lone_link.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"

namespace everstep {
namespace {

class LoneLink : public ControlLink {
 public:
  LoneLink(int num_replicas, int64_t term, std::function<void(const WorkerMessage&)> heard)
      : num_replicas_(num_replicas), only_view_{term, 1}, heard_(std::move(heard)) {}

  void Send(WorkerMessage message) override {
    if (heard_) heard_(message);
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto* hello = std::get_if<Hello>(&message)) {
      Greet(*hello);
    } else if (const auto* synced = std::get_if<Synced>(&message)) {
      if (synced->view == only_view_) orders_.push_back(Commit{only_view_});
    } else if (const auto* leaving = std::get_if<Leaving>(&message)) {
      const int code = leaving->reason == LeaveReason::kToldToLeave
                           ? static_cast<int>(kExitToldToLeave)
                           : leaving->exit_code;
      orders_.push_back(Stop{code, Duration(0), leaving->message});
    }
    arrived_.notify_all();
  }

  std::optional<WorkerOrder> Next(Deadline deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    // Only Send makes orders, so a caller that is also the sender never gains by waiting; another
    // thread may.
    if (deadline > RealClock().Now())
      arrived_.wait_until(lock, deadline, [&] { return !orders_.empty(); });
    if (orders_.empty()) return std::nullopt;
    WorkerOrder order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  void OnInterrupt(std::function<void(const WorkerOrder&)>) override {}

  Duration AwayFor() const override { return Duration(0); }

 private:
  void Greet(const Hello& hello) {
    View view;
    view.id = only_view_;
    view.num_replicas = num_replicas_;
    view.members.push_back(
        {hello.task, hello.incarnation, hello.host, hello.data_address, 0, num_replicas_});
    orders_.push_back(Welcome{only_view_.term});
    orders_.push_back(
        Prepare{std::move(view), {hello.history, hello.step, hello.digest, /*donor=*/-1}});
  }

  const int num_replicas_;
  const ViewId only_view_;
  const std::function<void(const WorkerMessage&)> heard_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<WorkerOrder> orders_;
};

}  // namespace

std::unique_ptr<ControlLink> MakeLoneLink(int num_replicas, int64_t term,
                                          std::function<void(const WorkerMessage&)> heard) {
  return std::make_unique<LoneLink>(num_replicas, term, std::move(heard));
}

}  // namespace everstep
