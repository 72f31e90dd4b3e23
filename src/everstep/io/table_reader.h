// io: reads LevelDB-format tables, of which a bundle's index is one. LevelDB's own reader trusts
// sizes found in the file before it has checked anything; this one does not.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace everstep {

// Calls `on` for each entry of the table in `bytes` (a whole file), in key order. Every CRC is
// checked and keys must rise strictly. `what` names the file in errors: kDataLoss for damage,
// kUnimplemented for compressed blocks. An error of `on` ends the walk and is returned. Needs
// memory for one key only.
absl::Status ForEachTableEntry(
    std::string_view bytes, const std::string& what,
    absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> on);

}  // namespace everstep
