// base: time as values. Clocks are read only through this interface (env has the real one), so that
// a simulated world can run everything that decides.
#pragma once

#include <chrono>

namespace everstep {

using Duration = std::chrono::nanoseconds;

// A point on one process's monotonic clock. Never sent to another process: ages travel as
// Durations.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Absolute: a deadline handed down a call chain keeps its meaning however long each call takes.
using Deadline = TimePoint;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;  // any thread
};

inline Deadline After(const Clock& clock, Duration d) { return clock.Now() + d; }

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double ToMilliseconds(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace everstep
