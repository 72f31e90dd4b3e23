// io: whole files that may be compressed by gzip.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

// The contents of `path`, decompressed if they are gzip (also several members one after another).
// kDataLoss, naming the file, when the compressed bytes are damaged or end early;
// kInvalidArgument when there would be more than `max_bytes`.
absl::StatusOr<std::string> ReadMaybeGzip(FileSystem& fs, const std::string& path,
                                          int64_t max_bytes = int64_t{1} << 32);

}  // namespace everstep
