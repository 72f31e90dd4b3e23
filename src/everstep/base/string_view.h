// base: the border between std::string_view (ours) and absl::string_view (Debian's Abseil has its
// own). Everything of ours speaks std::string_view; these two cross over where Abseil is called.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace everstep {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

}  // namespace everstep
