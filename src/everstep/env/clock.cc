// env: clocks, POSIX form.
#include "everstep/env/clock.h"

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
}  // namespace

const Clock& RealClock() {
  static const SteadyClock clock;
  return clock;
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

}  // namespace everstep
