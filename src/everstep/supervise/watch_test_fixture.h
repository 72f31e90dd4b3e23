// supervise: what tests of the watch share: real processes under a watch that looks often.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/process.h"
#include "everstep/env/process_tree.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/supervise/watch.h"

namespace everstep {

constexpr Duration kInterval = std::chrono::milliseconds(50);

inline bool Eventually(const std::function<bool()>& condition,
                       Duration patience = std::chrono::seconds(20)) {
  const Deadline deadline = After(RealClock(), patience);
  while (!condition()) {
    if (RealClock().Now() > deadline) return false;
    SleepFor(std::chrono::milliseconds(20));
  }
  return true;
}

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(WatchOptions options) {
    options.interval = kInterval;
    watch_ = std::make_unique<Watch>(options, [this] { ++news_; });
  }

  Process& Start(Incarnation incarnation, std::vector<std::string> argv,
                 std::map<std::string, std::string> settings = {}) {
    SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = CurrentEnvironment();
    options.working_directory = dir_.path();
    endpoint_ = watch_->Expect(incarnation);
    options.environment["EVERSTEP_HEARTBEAT"] = endpoint_.heartbeat;
    options.environment["PYTHONPATH"] = endpoint_.python_path;
    Spawn spawn;
    spawn.incarnation = incarnation;
    spawn.settings = std::move(settings);
    const auto [at, is_new] =
        processes_.insert_or_assign(incarnation, Process::Spawn(options).value());
    watch_->Add(spawn, at->second.pid());
    return at->second;
  }
  Process& Shell(Incarnation incarnation, const std::string& script) {
    return Start(incarnation, {"bash", "-c", script});
  }
  Process& Python(Incarnation incarnation, const std::string& program) {
    return Start(incarnation, {"python3", "-c", program});
  }

  void Take() {
    for (AgentMessage& message : watch_->Take()) {
      if (auto* vitals = std::get_if<Vitals>(&message)) vitals_[vitals->incarnation] = *vitals;
      if (auto* seen = std::get_if<CheckpointSeen>(&message)) seen_.push_back(*seen);
    }
  }
  bool Until(Incarnation incarnation, const std::function<bool(const Vitals&)>& condition,
             Duration patience = std::chrono::seconds(20)) {
    return Eventually(
        [&] {
          Take();
          const auto at = vitals_.find(incarnation);
          return at != vitals_.end() && condition(at->second);
        },
        patience);
  }
  bool UntilSeen(const std::string& path) {
    return Eventually([&] {
      Take();
      for (const CheckpointSeen& seen : seen_) {
        if (seen.path == path) return true;
      }
      return false;
    });
  }
  void Save(const std::string& name) {
    std::vector<float> numbers(1000, 1.f);
    BundleWriter writer(RealFileSystem(), dir_.File(name));
    ASSERT_TRUE(
        writer.Add({"w", DType::kFloat32, {1000}, reinterpret_cast<std::byte*>(numbers.data())})
            .ok());
    ASSERT_TRUE(writer.WriteShard(0, 1).ok() && writer.WriteIndex(1).ok());
  }

  const TempDirectory dir_;
  std::atomic<int> news_{0};
  std::unique_ptr<Watch> watch_;
  Watch::Endpoint endpoint_;
  std::map<Incarnation, Process> processes_;
  std::map<Incarnation, Vitals> vitals_;
  std::vector<CheckpointSeen> seen_;
};

}  // namespace everstep
