// env: the machine's monotonic clock and sleeping.
#pragma once

#include <string>

#include "everstep/base/clock.h"

namespace everstep {

// CLOCK_MONOTONIC. Lives for the whole program; any thread.
const Clock& RealClock();

void SleepFor(Duration d);

// Wall time, for names and logs only: nothing may depend on it. "20261130-162928", UTC.
std::string WallTimeForNames();
double WallSeconds();  // since 1970

}  // namespace everstep
