// supervise: how long a process may be silent, learned from how long it was silent before. Pure:
// times come from outside.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "everstep/base/clock.h"
#include "everstep/membership/messages.h"
#include "everstep/supervise/heartbeat_socket.h"

namespace everstep {

// The time that somebody who looks about every `interval` could have seen: when a look comes more
// than two intervals after the one before (the machine was asleep, or the one who looks was
// stopped), what lies between proves nothing and is left out but for one interval.
class WatchedTime {
 public:
  explicit WatchedTime(Duration interval) : interval_(interval) {}
  // At each look, with a clock's time that never falls.
  TimePoint At(TimePoint now);

 private:
  const Duration interval_;
  Duration missed_{};
  std::optional<TimePoint> last_;
};

// Signs of progress that are seen from outside.
enum class Sign { kOutput, kFiles, kCpu, kNetwork };

struct ProgressFloors {
  Duration outside = std::chrono::seconds(60);     // least silence from outside that counts
  Duration beats = std::chrono::seconds(300);      // the same of heartbeats
  Duration first_step = std::chrono::minutes(15);  // until two steps were heard of
};
// `hang_floor`, EVERSTEP_HANG_FLOOR in seconds, replaces the floors of silence; no number: as
// above.
ProgressFloors FloorsOf(std::string_view hang_floor);

// What is known of one process's progress. All times are WatchedTime's and never fall.
class ProgressLimit {
 public:
  ProgressLimit(const ProgressFloors& floors, TimePoint start) : floors_(floors), start_(start) {}

  void Saw(Sign sign, TimePoint at);
  void Heard(const Heartbeat& beat, TimePoint at);
  // `anew`: it has run since the look before, which found it stopped too.
  void SawStopped(bool stopped, bool anew, TimePoint at);

  // Fills in everything that has to do with silence, steps, and being stopped.
  void Tell(TimePoint now, Vitals* vitals) const;

 private:
  TimePoint LastSign() const;
  Duration IdleLimit() const;
  Duration BeatLimit() const;
  std::string Describe(TimePoint now) const;

  const ProgressFloors floors_;
  const TimePoint start_;
  std::array<std::optional<TimePoint>, 4> signs_;
  Duration longest_silence_{};  // that it came back from, other than by being continued
  bool was_stopped_ = false;    // since the last sign
  std::optional<TimePoint> stopped_since_;

  std::optional<TimePoint> last_beat_;
  std::optional<Duration> promise_;        // of the last beat
  std::optional<TimePoint> last_step_at_;  // the last beat that tells of progress
  int steps_heard_ = 0;                    // beats that told of progress; 2 are enough
  Duration longest_gap_{};                 // between them
  Step step_ = -1;
  std::string phase_;
};

}  // namespace everstep
