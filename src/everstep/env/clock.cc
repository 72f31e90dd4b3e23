// env: clocks, POSIX form.
#include "everstep/env/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include <thread>

namespace everstep {
namespace {
class SteadyClock : public Clock {
 public:
  TimePoint Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
};

class SleeplessClock : public Clock {
 public:
  TimePoint Now() const override {
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};
}  // namespace

const Clock& RealClock() {
  static const SteadyClock clock;
  return clock;
}

const Clock& BootClock() {
  static const auto* const clock = new SleeplessClock;  // outlives every thread
  return *clock;
}

void SleepFor(Duration d) { std::this_thread::sleep_for(d); }

std::string WallTimeForNames() {
  const time_t now = time(nullptr);
  tm utc;
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &utc);
  return text;
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string WallTimestamp() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  char text[64];
  const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(now.tv_nsec / 1000000));
  return text;
}

std::optional<double> SecondsOfTimestamp(std::string_view text) {
  tm utc{};
  double seconds = 0;
  int used = 0;
  const std::string copy(text);
  if (sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%6lfZ%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
             &utc.tm_hour, &utc.tm_min, &seconds, &used) != 6 ||
      used != static_cast<int>(copy.size()) || !isfinite(seconds)) {
    return std::nullopt;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return static_cast<double>(timegm(&utc)) + seconds;
}

}  // namespace everstep
