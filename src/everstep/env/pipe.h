// env: pipes.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "everstep/env/fd.h"

namespace everstep {

struct Pipe {
  UniqueFd read, write;
};
// Close-on-exec at both ends, blocking.
absl::StatusOr<Pipe> MakePipe();

void SetNonBlocking(int fd);

// Bytes read into [buffer, buffer + size): > 0; 0 at the end of the file (and at an error: nothing
// more will come); -1 when a non-blocking descriptor has none now. Goes on after EINTR.
ptrdiff_t ReadSome(int fd, char* buffer, size_t size);

// Writes all of `text` to a blocking descriptor. False when the reader is gone.
bool WriteAll(int fd, std::string_view text);

}  // namespace everstep
