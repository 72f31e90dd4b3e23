// supervise: a coordinator and a terminal of a test's making, for tests of the agent.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/port.h"
#include "everstep/env/temp_directory.h"
#include "everstep/supervise/agent.h"

namespace everstep {

// Plays the coordinator in the agent's own thread.
class FakeLink : public AgentLink {
 public:
  void Send(AgentMessage message) override {
    if (on_send) on_send(message);
    sent.push_back(std::move(message));
  }
  std::optional<AgentOrder> Next(Deadline) override {
    if (on_poll) on_poll();
    if (orders.empty()) return std::nullopt;
    AgentOrder order = orders.front();
    orders.pop_front();
    return order;
  }
  void ProveBy(const JobSecret&) override {}
  Duration AwayFor() const override { return away; }

  template <typename T>
  std::vector<T> Sent() const {
    std::vector<T> all;
    for (const AgentMessage& m : sent) {
      if (const T* t = std::get_if<T>(&m)) all.push_back(*t);
    }
    return all;
  }

  std::deque<AgentOrder> orders;
  std::vector<AgentMessage> sent;
  std::function<void(const AgentMessage&)> on_send;
  std::function<void()> on_poll;
  Duration away{};
};

class FakeView : public AgentView {
 public:
  void Line(const Task& task, OutputStream stream, std::string_view line) override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(task.ToString() + "|" + std::string(line));
  }
  void ShowProgress(const Progress& p) override { steps.push_back(p.step); }
  void Say(const std::string& text) override { said.push_back(text); }
  std::vector<std::string> lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  bool Has(const std::string& line) {
    const auto all = lines();
    return std::find(all.begin(), all.end(), line) != all.end();
  }

  std::vector<Step> steps;
  std::vector<std::string> said;

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    BecomeSubreaper();
    options_.context.inherited = {{"PATH", "/usr/bin:/bin"}};
    options_.context.coordinator = "127.0.0.1:29700";
    options_.context.job_directory = temp_.path();
    options_.grace = std::chrono::seconds(5);
  }
  ~AgentTest() override {
    EXPECT_TRUE(KillAllChildren(After(RealClock(), std::chrono::seconds(5))));
  }

  void Script(const std::string& script) { options_.program = {"sh", "-c", script}; }
  Spawn Worker(int index) {
    Spawn spawn;
    spawn.task = {"worker", index};
    spawn.incarnation = 100 + index;
    for (int port : ports_.ports()) {
      spawn.cluster.jobs["worker"].push_back(absl::StrCat("127.0.0.1:", port));
    }
    return spawn;
  }
  // Ends the job when `count` processes have exited.
  void EndAfter(size_t count, int code) {
    link_.on_send = [this, count, code](const AgentMessage& message) {
      if (std::holds_alternative<Exited>(message) && ++exits_ == count) {
        link_.orders.push_back(JobEnded{code, code == 0 ? "" : "a worker failed"});
      }
    };
  }
  AgentResult Run() {
    Agent agent(options_, &view_);
    const TimePoint start = RealClock().Now();
    AgentResult result = agent.Run(link_);
    took_ = RealClock().Now() - start;
    return result;
  }
  // Runs `action` once, in the agent's loop, when the line has come.
  void Once(const std::string& line, std::function<void()> action) {
    link_.on_poll = [this, line, action, done = false]() mutable {
      if (done || !view_.Has(line)) return;
      done = true;
      action();
    };
  }

  TempDirectory temp_;
  PortReservation ports_ = *ReservePorts(29710, 29799, 2);
  AgentOptions options_;
  FakeLink link_;
  FakeView view_;
  size_t exits_ = 0;
  Duration took_{};
};

}  // namespace everstep
