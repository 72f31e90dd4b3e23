// membership: the restart policy.
#include "everstep/membership/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/keyed_random.h"

namespace everstep {
namespace {

constexpr int kPoison = 3;       // failures at one place that end the job
constexpr int kMostLeaves = 20;  // in a row: then somebody does want it to end
constexpr int kMaxSignal = 65;
constexpr int kPreempted = 42;  // what TensorFlow's preemption handler exits with
constexpr double kFirstBackOff = 0.5, kLongestBackOff = 30;  // seconds

std::tuple<History, Step, int, int> PlaceOf(const Fault& fault) {
  if (fault.replica_begin < 0) return {fault.history, fault.step, -1, fault.task_index};
  return {fault.history, fault.step, fault.replica_begin, fault.replica_end};
}

int FailuresAt(const RestartBook& book, const Fault& fault) {
  auto it = book.failures.find(PlaceOf(fault));
  return it == book.failures.end() ? 0 : it->second;
}

// Jobs that failed together, on one file server say, do not come back together; yet one job's
// restarts can be told beforehand.
double Jitter(const RestartBook& book) {
  const uint64_t key =
      HashKey({static_cast<uint64_t>(book.term), static_cast<uint64_t>(book.total)});
  return 0.75 + 0.5 * static_cast<double>(key >> 11) * 0x1p-53;
}

Duration BackOff(const RestartBook& book) {
  const double base = std::min(
      kLongestBackOff, kFirstBackOff * (1 << std::min(std::max(book.used, book.leaves), 10)));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(base * Jitter(book)));
}

std::string PoisonText(const Fault& fault) {
  std::string text = fault.who;
  if (fault.replica_begin >= 0) {
    const bool one = fault.replica_end == fault.replica_begin + 1;
    absl::StrAppend(&text, one ? " (replica " : " (replicas ", fault.replica_begin);
    if (!one) absl::StrAppend(&text, "-", fault.replica_end - 1);
    absl::StrAppend(&text, ")");
  }
  absl::StrAppend(&text, " failed ", kPoison, " times ");
  absl::StrAppend(
      &text, fault.step < 0 ? "before it joined the others" : absl::StrCat("at step ", fault.step));
  return absl::StrCat(text, ": ", fault.what);
}

// Usage, data, configuration: someone must change something first.
bool NeedsAChange(int code) {
  return code == kExitUsage || code == kExitBadData || code == kExitConfiguration;
}

RestartVerdict UsedUp(const RestartBook& book, const Fault& fault) {
  return {false,
          {},
          absl::StrCat(CauseText(fault), "; the job has restarted ", book.used,
                       " times without a new checkpoint, which is all that --max-restarts allows")};
}

// Why a gang that failed so is not started again, before its budget is asked; empty: it is.
std::string WhyGangEnds(const RestartBook& book, const Fault& fault) {
  const std::string cause = CauseText(fault);
  if (NeedsAChange(fault.code)) return cause;
  if (fault.blame == Blame::kLeave && book.leaves >= kMostLeaves) {
    return absl::StrCat(cause, "; that was the reason for ", book.leaves,
                        " restarts without a new checkpoint");
  }
  if (fault.blame != Blame::kOwn) return "";
  if (fault.early) return cause;
  const auto it = book.own_failures.find(fault.task);
  const int before = it == book.own_failures.end() ? 0 : it->second;
  if (before + 1 < kPoison) return "";
  return absl::StrCat(fault.who, " failed ", before + 1,
                      " times without a new checkpoint in between; the last time it ", fault.what);
}

}  // namespace

Blame BlameFor(int code, int signal, bool oom) {
  if (oom) return Blame::kOwn;
  if (code == kExitToldToLeave || code == kPreempted) return Blame::kLeave;
  if (code == kExitNotNow) return Blame::kAgain;
  // A shell around the program says so of a signal that ended the program.
  if (signal == 0 && code > 128) signal = code - 128;
  switch (signal) {
    case 0:
    case 4:   // SIGILL
    case 5:   // SIGTRAP
    case 6:   // SIGABRT
    case 7:   // SIGBUS
    case 8:   // SIGFPE
    case 11:  // SIGSEGV
    case 31:  // SIGSYS
      return Blame::kOwn;
    default:
      return signal < kMaxSignal ? Blame::kOutside : Blame::kOwn;
  }
}

std::string CauseText(const Fault& fault) {
  return fault.who.empty() ? fault.what : absl::StrCat(fault.who, " ", fault.what);
}

int RestartsLeft(const RestartBook& book) { return std::max(0, book.max_restarts - book.used); }

RestartVerdict RestartOrEnd(const RestartBook& book, const Fault& fault) {
  const RestartVerdict end{false, {}, CauseText(fault)};
  const bool leaves = book.gang && fault.blame == Blame::kLeave;  // no failure, so not the first
  if (book.max_restarts == 0 && !leaves) return end;
  if (book.gang) {
    if (std::string why = WhyGangEnds(book, fault); !why.empty()) return {false, {}, why};
    if (leaves) return {true, BackOff(book), ""};
    return RestartsLeft(book) == 0 ? UsedUp(book, fault) : RestartVerdict{true, BackOff(book), ""};
  }
  if (fault.blame == Blame::kLeave) return end;
  // One that was killed before it could say hello may be native. What another failure of a program
  // that never does means, its user knows better.
  if (!book.native && fault.blame != Blame::kOutside) return end;
  if (NeedsAChange(fault.code)) return end;
  // Nothing is lost yet, and it would fail again: whoever started it is still watching.
  const bool inside = fault.blame == Blame::kOwn || fault.blame == Blame::kAgain;
  if (inside && !book.trained) return end;
  if (fault.blame == Blame::kOwn && FailuresAt(book, fault) + 1 >= kPoison) {
    return {false, {}, PoisonText(fault)};
  }
  if (RestartsLeft(book) == 0) return UsedUp(book, fault);
  return {true, BackOff(book), ""};
}

void BookRestart(RestartBook& book, const Fault& fault) {
  ++book.total;
  if (book.gang && fault.blame == Blame::kLeave) {
    ++book.leaves;
    return;
  }
  ++book.used;
  if (fault.blame != Blame::kOwn) return;
  book.gang ? ++book.own_failures[fault.task] : ++book.failures[PlaceOf(fault)];
}

void BookCheckpoint(RestartBook& book, History history, Step step) {
  if (std::make_pair(history, step) <= book.newest) return;
  book.newest = {history, step};
  book.used = 0;
  // Steps before a checkpoint are not run again.
  book.failures.erase(book.failures.begin(), book.failures.lower_bound({history, step, -1, -1}));
}

void BookCheckpointSeen(RestartBook& book, bool at_start) {
  book.used = book.leaves = 0;
  if (!at_start) book.own_failures.clear();
}

void BookTraining(RestartBook& book, History history, Step step) {
  book.trained = true;
  book.newest = std::max(book.newest, std::make_pair(history, step));
}

}  // namespace everstep
