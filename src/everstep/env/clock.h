// env: the machine's clocks and sleeping.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "everstep/base/clock.h"

namespace everstep {

// CLOCK_MONOTONIC. Lives for the whole program; any thread.
const Clock& RealClock();

// CLOCK_BOOTTIME: goes on while the machine is suspended, so for what others may take away
// meanwhile. Not to be mixed with times of RealClock().
const Clock& BootClock();

void SleepFor(Duration d);

// Wall time, for names and logs only: nothing may depend on it. "20261130-162928", UTC.
std::string WallTimeForNames();
double WallSeconds();  // since 1970
// "2026-11-30T16:29:28.123Z", UTC; and back to seconds since 1970, nothing when it is none.
std::string WallTimestamp();
std::optional<double> SecondsOfTimestamp(std::string_view text);

}  // namespace everstep
