// launch: cures for what programs are known to end with.
#pragma once

#include <string>
#include <string_view>

namespace everstep {

// What to set or change when a program ended with these last lines, where they are well known; else
// empty.
std::string HintOnFailure(std::string_view last_lines);

}  // namespace everstep
