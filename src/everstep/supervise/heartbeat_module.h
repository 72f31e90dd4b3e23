// supervise: python/everstep_heartbeat.py of this version, as it was when this was built: it comes
// with the one file that `everstep` is.
#pragma once

#include <string_view>

namespace everstep {

inline constexpr char kHeartbeatModuleName[] = "everstep_heartbeat.py";
std::string_view HeartbeatModule();

}  // namespace everstep
