// cli: `everstep records ...`: TFRecord files made, listed, checked and printed.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "everstep/env/file.h"

namespace everstep {

// The verbs themselves; `json`: for scripts.
absl::Status ListRecords(FileSystem& fs, const std::vector<std::string>& files, bool json,
                         std::ostream& out);
absl::Status VerifyRecords(FileSystem& fs, const std::vector<std::string>& files, bool json,
                           std::ostream& out);
// The first `limit` records, all when negative.
absl::Status PrintRecords(FileSystem& fs, const std::string& file, int64_t limit, bool json,
                          std::ostream& out);

}  // namespace everstep
