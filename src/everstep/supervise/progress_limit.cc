// supervise: learned limits of silence.
#include "everstep/supervise/progress_limit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace everstep {
namespace {

constexpr int kTimesSilence = 3;
constexpr int kTimesGap = 10;
// A promise of less is no reason to end a process: the looks are a second apart, and machines
// stutter.
constexpr Duration kLeastPromise = std::chrono::seconds(5);
constexpr const char* kNames[] = {"output", "files", "CPU", "network"};

}  // namespace

TimePoint WatchedTime::At(TimePoint now) {
  if (last_.has_value() && now - *last_ > 2 * interval_) missed_ += now - *last_ - interval_;
  last_ = now;
  return now - missed_;
}

ProgressFloors FloorsOf(std::string_view hang_floor) {
  ProgressFloors floors;
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(hang_floor.data(), hang_floor.data() + hang_floor.size(), seconds);
  if (hang_floor.empty() || error != std::errc() || end != hang_floor.data() + hang_floor.size() ||
      !(seconds > 0 && seconds < 1e9)) {
    return floors;
  }
  floors.outside = floors.beats = std::chrono::milliseconds(std::llround(seconds * 1000));
  return floors;
}

TimePoint ProgressLimit::LastSign() const {
  TimePoint last = start_;
  for (const auto& at : signs_) last = std::max(last, at.value_or(start_));
  return last;
}

void ProgressLimit::Saw(Sign sign, TimePoint at) {
  // Silence while it was stopped says nothing about the program.
  if (!was_stopped_) longest_silence_ = std::max(longest_silence_, at - LastSign());
  was_stopped_ = stopped_since_.has_value();
  signs_[static_cast<size_t>(sign)] = at;
}

void ProgressLimit::SawStopped(bool stopped, bool anew, TimePoint at) {
  if (!stopped || anew) stopped_since_.reset();
  if (!stopped) return;
  was_stopped_ = true;
  if (!stopped_since_.has_value()) stopped_since_ = at;
}

void ProgressLimit::Heard(const Heartbeat& beat, TimePoint at) {
  last_beat_ = at;
  promise_ = beat.expect;
  if (!beat.phase.empty()) phase_ = beat.phase;
  // A program that counts no steps beats where it gets on; one that does may beat in between.
  const bool progress = !beat.step.has_value() ? step_ < 0 : *beat.step > step_;
  if (beat.step.has_value()) step_ = *beat.step;
  if (!progress) return;
  // The first step builds the program's graph: what comes before its end is no measure.
  if (steps_heard_ >= 2) longest_gap_ = std::max(longest_gap_, at - *last_step_at_);
  if (steps_heard_ < 2) ++steps_heard_;
  last_step_at_ = at;
}

Duration ProgressLimit::IdleLimit() const {
  return std::max(floors_.outside, kTimesSilence * longest_silence_);
}

Duration ProgressLimit::BeatLimit() const {
  if (promise_.has_value()) return std::max(*promise_, kLeastPromise);
  if (steps_heard_ < 2) return std::max(floors_.beats, floors_.first_step);
  return std::max(floors_.beats, kTimesGap * longest_gap_);
}

void ProgressLimit::Tell(TimePoint now, Vitals* vitals) const {
  vitals->idle = now - LastSign();
  vitals->idle_limit = IdleLimit();
  vitals->stopped = Duration::zero();
  if (stopped_since_.has_value()) {
    // Zero would say that it runs.
    vitals->stopped = std::max<Duration>(now - *stopped_since_, std::chrono::milliseconds(1));
  }
  vitals->beats = last_beat_.has_value() && promise_ != Duration::zero();
  if (vitals->beats) {
    vitals->beat_age = now - *last_beat_;
    vitals->beat_limit = BeatLimit();
  }
  vitals->step = step_;
  vitals->phase = phase_;
  vitals->seen = Describe(now);
}

std::string ProgressLimit::Describe(TimePoint now) const {
  const auto ago = [&](TimePoint at) {
    return absl::StrFormat("%.0f s ago", std::floor(ToSeconds(now - at)));
  };
  std::string text;
  if (last_beat_.has_value()) absl::StrAppend(&text, "heartbeat ", ago(*last_beat_), ", ");
  bool any = false;
  for (size_t i = 0; i < signs_.size(); ++i) {
    if (!signs_[i].has_value()) continue;
    any = true;
    absl::StrAppend(&text, kNames[i], " ", ago(*signs_[i]), ", ");
  }
  if (!any) absl::StrAppend(&text, "nothing since its start ", ago(start_), ", ");
  return text.substr(0, text.size() - 2);
}

}  // namespace everstep
