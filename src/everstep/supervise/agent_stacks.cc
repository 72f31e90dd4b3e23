// supervise: taking stacks.
#include "everstep/supervise/agent_stacks.h"

#include <signal.h>

#include <algorithm>
#include <condition_variable>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/other_process.h"
#include "everstep/env/poll.h"
#include "everstep/env/process_tree.h"
#include "everstep/env/thread_stacks.h"

namespace everstep {
namespace {

// For all processes of a task together. The coordinator does not wait much longer.
constexpr Duration kPatience = std::chrono::milliseconds(4500);
constexpr Duration kNativePatience = std::chrono::seconds(3);   // for one process
constexpr Duration kSilence = std::chrono::seconds(2);          // that ends what a Python prints
constexpr Duration kAfterEnd = std::chrono::milliseconds(100);  // the same, once it has ended
constexpr Duration kGiveUp = std::chrono::seconds(8);
// Between standing still and being looked at: for the orders to come that belong to this one.
constexpr Duration kTogether = std::chrono::milliseconds(100);
constexpr size_t kMaxProcesses = 64;
constexpr size_t kMaxText = 64 << 10;  // of a message
constexpr size_t kMaxArguments = 200;  // bytes of them that are shown

struct Subject {
  ProcessEntry entry;
  UniqueFd fd;
  bool frozen = false;  // by us; it ran before
  bool asks_python = false;
  std::string text;
};

bool IsStopped(const Subject& subject) { return subject.entry.state == 'T'; }

// Held by descriptor, so that whoever gets a number later is not meant.
std::vector<Subject> SubjectsOf(pid_t leader) {
  std::vector<Subject> subjects;
  for (const ProcessEntry& entry : TreeOf(leader, ListProcesses())) {
    if (!entry.lives() || subjects.size() >= kMaxProcesses) continue;
    absl::StatusOr<UniqueFd> fd = OpenPidFd(entry.pid);
    ProcessEntry now;
    if (!fd.ok() || !ReadProcess(entry.pid, &now) || now.start_time != entry.start_time) continue;
    subjects.push_back({entry, *std::move(fd)});
  }
  return subjects;
}

// One that dies for its stacks takes its peers' connections with it, and they would end before
// theirs are taken.
std::vector<Subject> Freeze(pid_t leader) {
  std::vector<Subject> subjects = SubjectsOf(leader);
  for (Subject& subject : subjects) {
    subject.frozen = !IsStopped(subject);
    if (subject.frozen) SignalPidFd(subject.fd.get(), SIGSTOP);
  }
  return subjects;
}

void ChooseWhomToAsk(pid_t leader, std::vector<Subject>& subjects) {
  // Whom we must not abort for it: one without a handler would die without a word, one whose
  // standard error is elsewhere would speak to somebody else.
  const std::string ours = DescriptorOf(leader, 2);
  for (Subject& subject : subjects) {
    const pid_t pid = subject.entry.pid;
    const std::string error = DescriptorOf(pid, 2);
    subject.asks_python = IsPython(pid) && CatchesSignal(pid, SIGABRT) &&
                          error.rfind("pipe:", 0) == 0 && error == ours;
  }
}

std::string Heading(const ProcessEntry& entry) {
  std::string arguments = absl::StrJoin(ArgumentsOf(entry.pid), " ");
  if (arguments.size() > kMaxArguments) arguments = arguments.substr(0, kMaxArguments) + "...";
  return absl::StrCat("process ", entry.pid, arguments.empty() ? "" : absl::StrCat(": ", arguments),
                      entry.state == 'T' ? " (stopped by a signal)" : "", "\n");
}

std::string Native(const Subject& subject, Deadline deadline) {
  const Duration left = deadline - RealClock().Now();
  if (left <= Duration::zero()) return "  no time was left for its stacks\n";
  const std::string text = NativeStacks(subject.entry.pid, std::min(left, kNativePatience));
  // Nobody but us has stopped it.
  return subject.frozen ? absl::StrReplaceAll(text, {{", stopped by a signal:", ":"}}) : text;
}

// Its fault handler writes all threads' stacks on its standard error, and then it dies.
std::string AskPython(const Subject& subject, Capture& capture, Deadline deadline) {
  ForbidCoreDump(subject.entry.pid);
  capture.Begin();
  SignalPidFd(subject.fd.get(), SIGABRT);
  SignalPidFd(subject.fd.get(), SIGCONT);  // a stopped one would not hear it
  size_t size = 0;
  for (TimePoint last = RealClock().Now();; SleepFor(std::chrono::milliseconds(20))) {
    const TimePoint now = RealClock().Now();
    if (capture.size() != size) {
      size = capture.size();
      last = now;
    }
    const Duration silence = HasExited(subject.fd.get()) ? kAfterEnd : kSilence;
    if (now - last >= silence || now >= deadline) break;
  }
  return capture.Take();
}

std::string TakeAll(const StacksWanted& wanted, std::vector<Subject>& subjects) {
  SleepFor(kTogether);
  const Deadline deadline = After(RealClock(), kPatience);
  ChooseWhomToAsk(wanted.leader, subjects);
  for (Subject& subject : subjects) {
    subject.text = Heading(subject.entry);
    if (!subject.asks_python) subject.text += Native(subject, deadline);
  }
  for (Subject& subject : subjects) {
    if (!subject.asks_python) continue;
    const std::string text = AskPython(subject, *wanted.capture, deadline);
    if (!text.empty()) {
      absl::StrAppend(&subject.text, text, text.back() == '\n' ? "" : "\n");
    } else if (HasExited(subject.fd.get())) {
      subject.text += "  it ended without a word of its stacks\n";
    } else {
      absl::StrAppend(&subject.text, "  Python did not answer; from outside:\n",
                      Native(subject, deadline));
    }
  }
  std::string text;
  for (const Subject& subject : subjects) {
    if (subject.frozen) SignalPidFd(subject.fd.get(), SIGCONT);
    absl::StrAppend(&text, text.empty() ? "" : "\n", subject.text);
  }
  return text.empty() ? "its processes had ended\n" : text;
}

absl::Status WriteFile(FileSystem& fs, const std::string& path, const std::string& text) {
  EV_RETURN_IF_ERROR(fs.CreateDirectories(path.substr(0, path.rfind('/'))));
  EV_ASSIGN_OR_RETURN(auto file, fs.OpenForWriting(path, FileSystem::Create::kTruncate));
  EV_RETURN_IF_ERROR(file->Append(text));
  return file->Close();
}

// As much of it as a message holds, in whole lines.
std::string Shortened(const std::string& text, const std::string& path) {
  if (text.size() <= kMaxText) return text;
  const std::string rest = absl::StrCat("[the rest is in ", path.empty() ? "no file" : path, "]\n");
  const size_t end = text.rfind('\n', kMaxText - rest.size() - 1);
  return absl::StrCat(absl::string_view(text).substr(0, end == std::string::npos ? 0 : end + 1),
                      rest);
}

}  // namespace

// Shared with the thread, which may outlive the taker.
struct StackTaker::Work {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Stacks stacks;
  std::function<void()> on_news;  // null: nobody is interested any more
};

StackTaker::StackTaker(FileSystem& fs, std::function<void()> on_news)
    : fs_(fs), on_news_(std::move(on_news)) {}

StackTaker::~StackTaker() {
  for (auto& entry : running_) {
    Running& running = entry.second;
    std::unique_lock<std::mutex> lock(running.work->mutex);
    const bool done = running.work->changed.wait_for(lock, std::chrono::seconds(2),
                                                     [&running] { return running.work->done; });
    running.work->on_news = nullptr;
    lock.unlock();
    done ? running.thread.join() : running.thread.detach();
  }
}

void StackTaker::Begin(StacksWanted wanted) {
  if (IsTaking(wanted.incarnation)) return;
  const Incarnation incarnation = wanted.incarnation;
  auto work = std::make_shared<Work>();
  work->on_news = on_news_;
  auto subjects = std::make_shared<std::vector<Subject>>(Freeze(wanted.leader));
  std::thread thread([work, subjects, wanted = std::move(wanted), &fs = fs_] {
    const std::string text = TakeAll(wanted, *subjects);
    const bool kept = !wanted.path.empty() && WriteFile(fs, wanted.path, text).ok();
    const std::string path = kept ? wanted.path : "";
    std::lock_guard<std::mutex> lock(work->mutex);
    work->stacks = {wanted.incarnation, Shortened(text, path), path};
    work->done = true;
    work->changed.notify_all();
    if (work->on_news) work->on_news();
  });
  running_.emplace(incarnation, Running{work, std::move(thread), After(RealClock(), kGiveUp)});
}

bool StackTaker::IsTaking(Incarnation incarnation) const {
  return running_.count(incarnation) != 0;
}

std::vector<Stacks> StackTaker::Take() {
  std::vector<Stacks> taken;
  const TimePoint now = RealClock().Now();
  for (auto it = running_.begin(); it != running_.end();) {
    Running& running = it->second;
    std::unique_lock<std::mutex> lock(running.work->mutex);
    const bool done = running.work->done;
    if (!done && now < running.given_up_at) {
      ++it;
      continue;
    }
    running.work->on_news = nullptr;
    taken.push_back(done ? std::move(running.work->stacks)
                         : Stacks{it->first, "its stacks could not be taken in time\n", ""});
    lock.unlock();
    done ? running.thread.join() : running.thread.detach();
    it = running_.erase(it);
  }
  return taken;
}

}  // namespace everstep
