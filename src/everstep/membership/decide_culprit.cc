// membership: Decide, which of several processes that do not go on is the likely culprit, and why.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

// Silences nearer to each other than this tell nothing: they are looked at once a second.
constexpr Duration kClear = std::chrono::seconds(2);

using Suspects = std::vector<const WorkerEntry*>;

const WorkerEntry* LongestStopped(const Suspects& among) {
  const WorkerEntry* found = nullptr;
  for (const WorkerEntry* worker : among) {
    const Duration stopped = worker->vitals->stopped;
    if (stopped > Duration(0) && (found == nullptr || stopped > found->vitals->stopped)) {
      found = worker;
    }
  }
  return found;
}

// The only one at the lowest step, if others are further.
const WorkerEntry* Behind(const Suspects& among, Step* furthest) {
  const WorkerEntry* found = nullptr;
  bool alone = true;
  for (const WorkerEntry* worker : among) {
    const Step step = worker->vitals->step;
    if (step < 0) continue;
    *furthest = std::max(*furthest, step);
    if (found == nullptr || step < found->vitals->step) {
      found = worker;
      alone = true;
    } else if (step == found->vitals->step) {
      alone = false;
    }
  }
  return found != nullptr && alone && found->vitals->step < *furthest ? found : nullptr;
}

// Addresses differ from process to process.
std::string WithoutNumbers(const std::string& frame) {
  std::string text;
  for (size_t i = 0; i < frame.size(); ++i) {
    if (frame.compare(i, 2, "0x") == 0) {
      i += 1;
      while (i + 1 < frame.size() && absl::ascii_isxdigit(frame[i + 1])) ++i;
    } else {
      text += frame[i];
    }
  }
  return text;
}

// Of at least three, the one that stands elsewhere than all others.
const WorkerEntry* UnlikeTheOthers(const Suspects& among) {
  std::map<std::string, Suspects> by_place;
  for (const WorkerEntry* worker : among) {
    if (!worker->stacks) return nullptr;
    by_place[WithoutNumbers(InnermostFrames(worker->stacks->text, 1))].push_back(worker);
  }
  if (among.size() < 3 || by_place.size() != 2) return nullptr;
  for (const auto& [place, workers] : by_place) {
    if (workers.size() == 1) return workers.front();
  }
  return nullptr;
}

}  // namespace

const WorkerEntry* Decider::CulpritOf(const std::vector<const WorkerEntry*>& among,
                                      std::string* reasons) const {
  const WorkerEntry* longest = among.front();
  for (const WorkerEntry* worker : among) {
    if (SilenceOf(*worker) > SilenceOf(*longest)) longest = worker;
  }
  const bool clear = std::all_of(among.begin(), among.end(), [&](const WorkerEntry* worker) {
    return worker == longest || SilenceOf(*longest) - SilenceOf(*worker) >= kClear;
  });
  Step furthest = -1;
  const WorkerEntry* const stopped = LongestStopped(among);
  const WorkerEntry* const behind = Behind(among, &furthest);
  const WorkerEntry* const unlike = UnlikeTheOthers(among);
  const WorkerEntry* culprit = longest;
  for (const WorkerEntry* suspect : {unlike, behind, stopped}) {  // the last one counts most
    if (suspect != nullptr) culprit = suspect;
  }
  std::vector<std::string> all;
  if (behind == culprit) {
    all.push_back(
        absl::StrCat("it is at step ", culprit->vitals->step, " and others at ", furthest));
  }
  if (unlike == culprit) all.push_back("its stack is unlike those of the others");
  if (longest == culprit && clear && among.size() > 1) {
    all.push_back(absl::StrCat("it is silent for longest, ", AgeText(SilenceOf(*culprit))));
  }
  *reasons = absl::StrJoin(all, ", ");
  return culprit;
}

// Python marks the thread that answered; else the first one is the process's main thread.
std::string InnermostFrames(const std::string& stacks, size_t lines) {
  const std::vector<std::string> all = absl::StrSplit(stacks, '\n');
  auto begin = std::find_if(all.begin(), all.end(), [](const std::string& line) {
    return line.compare(0, 14, "Current thread") == 0;
  });
  if (begin == all.end()) begin = all.begin();
  std::vector<std::string> frames;
  for (auto line = begin; line != all.end() && frames.size() < lines; ++line) {
    const bool frame = !line->empty() && absl::ascii_isspace((*line)[0]);
    if (frame) frames.push_back(*line);
    if (!frame && !frames.empty()) break;  // the next thread
  }
  return absl::StrJoin(frames, "\n");
}

}  // namespace everstep
