// supervise: the watch's face; its threads are in watch_pulse.cc and watch_files.cc.
#include "everstep/supervise/watch.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/datagram.h"
#include "everstep/env/poll.h"
#include "everstep/supervise/heartbeat_module.h"
#include "everstep/supervise/watch_state.h"

namespace everstep {
namespace {

absl::StatusOr<std::unique_ptr<RuntimeDirectory>> MakeDirectoryWithModule() {
  EV_ASSIGN_OR_RETURN(std::unique_ptr<RuntimeDirectory> directory, RuntimeDirectory::Make());
  FileSystem& fs = RealFileSystem();
  const std::string python = JoinPath(directory->path(), "python");
  EV_RETURN_IF_ERROR(fs.CreateDirectories(python));
  EV_ASSIGN_OR_RETURN(auto file, fs.OpenForWriting(JoinPath(python, kHeartbeatModuleName),
                                                   FileSystem::Create::kExclusive));
  EV_RETURN_IF_ERROR(file->Append(HeartbeatModule()));
  EV_RETURN_IF_ERROR(file->Close());
  return directory;
}

std::string Setting(const Spawn& spawn, const std::string& name) {
  const auto at = spawn.settings.find(name);
  return at == spawn.settings.end() ? std::string() : at->second;
}

}  // namespace

void Watch::State::Say() {
  std::lock_guard<std::mutex> lock(news_mutex);
  if (on_news != nullptr) on_news();
}

std::vector<Watch::State::ProcessPtr> Watch::State::Started() const {
  std::vector<ProcessPtr> started;
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [incarnation, process] : processes) {
    if (process->pid != 0) started.push_back(process);
  }
  return started;
}

bool Watch::State::Stopped() const {
  std::lock_guard<std::mutex> lock(mutex);
  return stop;
}

void Watch::State::Publish(std::vector<Vitals> said) {
  bool news = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Vitals& each : said) {
      if (processes.count(each.incarnation) == 0) continue;
      vitals[each.incarnation] = std::move(each);
      news = true;
    }
    // Somebody waits for it, and what hangs will not say so.
    if (verify_until.has_value() && RealClock().Now() >= *verify_until) {
      verify_until.reset();
      news = true;
    }
  }
  if (news) Say();
}

Watch::Watch(WatchOptions options, std::function<void()> on_news)
    : state_(std::make_shared<State>(std::move(options), std::move(on_news))) {
  absl::StatusOr<UniqueFd> wake = MakeEventFd();
  if (wake.ok()) state_->wake = std::move(*wake);
  state_->running = 2;
  // Each lets go of the state last of all.
  const auto start = [this](void (*run)(std::shared_ptr<State>)) {
    std::thread([state = state_, run] {
      run(state);
      std::lock_guard<std::mutex> lock(state->mutex);
      --state->running;
      state->changed.notify_all();
    }).detach();
  };
  start(&Pulse::Run);
  start(&Files::Run);
}

Watch::~Watch() {
  {
    std::lock_guard<std::mutex> lock(state_->news_mutex);
    state_->on_news = nullptr;
  }
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  SignalEventFd(state_->wake.get());
  state_->changed.wait_for(lock, std::chrono::seconds(2), [&] { return state_->running == 0; });
  state_->processes.clear();
  state_->directory.reset();
}

Watch::Endpoint Watch::Expect(Incarnation incarnation) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  auto process = std::make_shared<State::Process>();
  process->incarnation = incarnation;
  state_->processes[incarnation] = process;
  if (state_->directory == nullptr) {
    auto directory = MakeDirectoryWithModule();
    if (!directory.ok()) return {};
    state_->directory = std::move(*directory);
  }
  auto socket = HeartbeatSocket::Open(
      JoinPath(state_->directory->path(), absl::StrCat(absl::Hex(incarnation))));
  if (!socket.ok()) return {};
  process->socket = std::move(*socket);
  return {process->socket->path(), JoinPath(state_->directory->path(), "python")};
}

void Watch::Add(const Spawn& spawn, pid_t pid) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  State::ProcessPtr& process = state_->processes[spawn.incarnation];
  if (process == nullptr) {
    process = std::make_shared<State::Process>();
    process->incarnation = spawn.incarnation;
  }
  process->pid = pid;
  process->pids = {pid};
  process->floors = FloorsOf(Setting(spawn, "EVERSTEP_HANG_FLOOR"));
  process->checkpoint_path = Setting(spawn, "EVERSTEP_CHECKPOINT_PATH");
  // Times of files are the kernel's, which lag behind the clock by a tick.
  process->started = WallSeconds() - 0.02;
  state_->changed.notify_all();
  SignalEventFd(state_->wake.get());
}

void Watch::SawOutput(Incarnation incarnation, size_t bytes) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  const auto at = state_->processes.find(incarnation);
  if (at != state_->processes.end()) at->second->output += static_cast<int64_t>(bytes);
}

void Watch::Remove(Incarnation incarnation) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->processes.erase(incarnation);
  state_->vitals.erase(incarnation);
  SignalEventFd(state_->wake.get());
}

std::vector<AgentMessage> Watch::Take() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<AgentMessage> messages = std::exchange(state_->messages, {});
  for (auto& [incarnation, vitals] : std::exchange(state_->vitals, {})) {
    messages.emplace_back(std::move(vitals));
  }
  return messages;
}

void Watch::VerifyNewest() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->verify_wanted = true;
  state_->verify_until = After(RealClock(), State::kVerifyPatience);
  state_->changed.notify_all();
}

bool Watch::Verifying() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->verify_until.has_value() && RealClock().Now() < *state_->verify_until;
}

std::vector<Note> Watch::TakeNotes() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return std::exchange(state_->notes, {});
}

}  // namespace everstep
