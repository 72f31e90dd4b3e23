// supervise: the watch's thread that looks at processes and hears their heartbeats.
#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/env/poll.h"
#include "everstep/env/process_usage.h"
#include "everstep/supervise/watch_state.h"

namespace everstep {
namespace {

constexpr double kBusy = 0.1;              // cores that are progress
constexpr int64_t kMovedBytes = 64 << 10;  // written or sent that are progress
// By so much may what came from processes that left the tree make it seem that less was written.
constexpr int64_t kForgotten = 16 << 20;
constexpr int kFindEvery = 5;      // looks between searches for new processes and traffic
constexpr size_t kLooksOfCpu = 5;  // over which cores are counted
// After heartbeats came: a flood of them is heard at this pace.
constexpr Duration kBreath = std::chrono::milliseconds(20);

// One process, as this thread knows it.
struct Patient {
  Patient(pid_t p, const ProgressFloors& floors, TimePoint now) : pid(p), limit(floors, now) {}
  const pid_t pid;
  ProgressLimit limit;
  ProcessUsage before;
  std::optional<TimePoint> looked;
  int64_t output = 0;
  int64_t unprinted = 0;  // bytes that it wrote elsewhere than to its output, at most so far
  std::deque<std::pair<TimePoint, Duration>> cpu;
};

class Ward {
 public:
  using ProcessPtr = Watch::State::ProcessPtr;

  explicit Ward(Duration interval) : time_(interval), interval_(interval) {}

  // Takes up who is new, lets go who was removed.
  void Follow(const std::vector<ProcessPtr>& processes, std::mutex* mutex);
  void Hear(const std::vector<ProcessPtr>& processes);
  // False when it is not time to.
  bool Look(const std::vector<ProcessPtr>& processes, std::mutex* mutex,
            std::vector<Vitals>* vitals);
  Duration UntilLook() const { return next_ - RealClock().Now(); }

 private:
  void Compare(const ProcessUsage& usage, const ProcessPtr& process, bool files, TimePoint now,
               Patient* patient);
  Vitals Tell(const ProcessPtr& process, const Patient& patient, TimePoint now) const;

  WatchedTime time_;
  const Duration interval_;
  UsageMeter meter_;
  std::map<Incarnation, Patient> patients_;
  TimePoint next_{};
  int looks_ = 0;
};

void Ward::Follow(const std::vector<ProcessPtr>& processes, std::mutex* mutex) {
  const TimePoint now = time_.At(RealClock().Now());
  std::set<Incarnation> present;
  for (const ProcessPtr& process : processes) present.insert(process->incarnation);
  for (auto at = patients_.begin(); at != patients_.end();) {
    if (present.count(at->first) > 0) {
      ++at;
      continue;
    }
    meter_.Remove(at->second.pid);
    at = patients_.erase(at);
  }
  for (const ProcessPtr& process : processes) {
    if (patients_.count(process->incarnation) > 0) continue;
    std::lock_guard<std::mutex> lock(*mutex);
    patients_.try_emplace(process->incarnation, process->pid, process->floors, now);
    meter_.Add(process->pid);
    looks_ = 0;  // what it starts is found with it
  }
}

void Ward::Hear(const std::vector<ProcessPtr>& processes) {
  const TimePoint now = time_.At(RealClock().Now());
  for (const ProcessPtr& process : processes) {
    if (process->socket == nullptr) continue;
    Patient& patient = patients_.at(process->incarnation);
    process->socket->Take([&](const Heartbeat& beat) { patient.limit.Heard(beat, now); });
  }
}

bool Ward::Look(const std::vector<ProcessPtr>& processes, std::mutex* mutex,
                std::vector<Vitals>* vitals) {
  const TimePoint clock = RealClock().Now();
  if (clock < next_) return false;
  next_ = clock + interval_;
  const bool all = looks_++ % kFindEvery == 0;
  const auto usages = meter_.Look(all ? UsageMeter::Scope::kAll : UsageMeter::Scope::kKnown);
  // After the look, which may have taken long, as the sleep before it may: what has come meanwhile
  // counts before anybody is said to be silent.
  Hear(processes);
  const TimePoint now = time_.At(RealClock().Now());
  for (const ProcessPtr& process : processes) {
    Patient& patient = patients_.at(process->incarnation);
    const auto usage = usages.find(patient.pid);
    // One that has ended is the agent's to tell of.
    if (usage == usages.end() || !usage->second.alive) continue;
    bool files = false;
    {
      std::lock_guard<std::mutex> lock(*mutex);
      files = std::exchange(process->files_grew, false);
      process->pids = usage->second.pids;
    }
    Compare(usage->second, process, files, now, &patient);
    Vitals said = Tell(process, patient, now);
    std::lock_guard<std::mutex> lock(*mutex);
    said.wrote = process->wrote;
    vitals->push_back(std::move(said));
  }
  return true;
}

void Ward::Compare(const ProcessUsage& usage, const ProcessPtr& process, bool files, TimePoint now,
                   Patient* patient) {
  const int64_t output = process->output;
  const int64_t printed = output - std::exchange(patient->output, output);
  ProgressLimit& limit = patient->limit;
  if (patient->looked.has_value()) {
    const ProcessUsage& before = patient->before;
    const double seconds = ToSeconds(now - *patient->looked);
    if (ToSeconds(usage.cpu - before.cpu) >= kBusy * seconds && usage.cpu > before.cpu) {
      limit.Saw(Sign::kCpu, now);
    }
    if (usage.network - before.network >= kMovedBytes) limit.Saw(Sign::kNetwork, now);
  }
  // What it printed went through write calls too, some time before it came here.
  const int64_t unprinted = usage.written - output;
  files |= unprinted - patient->unprinted >= kMovedBytes;
  patient->unprinted = std::clamp(patient->unprinted, unprinted, unprinted + kForgotten);
  if (printed > 0) limit.Saw(Sign::kOutput, now);
  if (files) limit.Saw(Sign::kFiles, now);
  // What prints goes on, whatever in it is stopped.
  const bool ran = usage.stop != patient->before.stop || printed > 0;
  limit.SawStopped(usage.stopped, patient->before.stopped && ran, now);
  patient->looked = now;
  patient->before = usage;
  patient->cpu.emplace_back(now, usage.cpu);
  if (patient->cpu.size() > kLooksOfCpu + 1) patient->cpu.pop_front();
}

Vitals Ward::Tell(const ProcessPtr& process, const Patient& patient, TimePoint now) const {
  Vitals vitals;
  vitals.incarnation = process->incarnation;
  vitals.memory = patient.before.memory;
  const auto& [since, used] = patient.cpu.front();
  if (now > since) vitals.cpu = ToSeconds(patient.before.cpu - used) / ToSeconds(now - since);
  patient.limit.Tell(now, &vitals);
  const std::string& stopped = patient.before.stopped_process;
  if (vitals.stopped > Duration::zero()) vitals.stopped_process = stopped;
  absl::StrAppend(&vitals.seen, absl::StrFormat(", %.1f cores", vitals.cpu));
  if (vitals.stopped > Duration::zero()) {
    absl::StrAppend(&vitals.seen,
                    absl::StrFormat(", stopped for %.0f s", ToSeconds(vitals.stopped)));
  } else if (!stopped.empty()) {  // a helper: what stands still for that is silent too
    absl::StrAppend(&vitals.seen, ", its ", stopped, " is stopped by a signal");
  }
  return vitals;
}

}  // namespace

void Watch::Pulse::Run(std::shared_ptr<State> state) {
  Ward ward(state->options.interval);
  TimePoint hear_again{};
  while (true) {
    std::vector<State::ProcessPtr> processes = state->Started();
    const TimePoint now = RealClock().Now();
    const bool hears = now >= hear_again;
    std::vector<PollItem> items(1);
    items[0].fd = state->wake.get();
    items[0].read = true;
    for (const State::ProcessPtr& process : processes) {
      if (!hears || process->socket == nullptr) continue;
      items.emplace_back().fd = process->socket->fd();
      items.back().read = true;
    }
    Duration timeout = processes.empty() ? state->options.interval
                                         : std::min(ward.UntilLook(), state->options.interval);
    if (!hears) timeout = std::min(timeout, hear_again - now);
    (void)Poll(absl::MakeSpan(items), timeout);
    DrainEventFd(state->wake.get());
    if (state->Stopped()) return;
    processes = state->Started();  // some may be gone, and their numbers with them
    ward.Follow(processes, &state->mutex);
    const auto readable = [](const PollItem& item) { return item.readable; };
    if (std::any_of(items.begin() + 1, items.end(), readable)) {
      ward.Hear(processes);
      hear_again = RealClock().Now() + kBreath;
    }
    std::vector<Vitals> vitals;
    if (ward.Look(processes, &state->mutex, &vitals)) state->Publish(std::move(vitals));
  }
}

}  // namespace everstep
