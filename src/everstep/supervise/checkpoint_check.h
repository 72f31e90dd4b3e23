// supervise: whether a program's newest TensorFlow checkpoint can be read, before the program is
// started again to find out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/env/file.h"
#include "everstep/membership/messages.h"
#include "everstep/supervise/checkpoint_finder.h"

namespace everstep {

enum class CheckpointVerdict {
  kGood,
  kDamaged,
  // Not of TensorFlow (nor is an index above 64 MiB), of a form that cannot be read here, gone, or
  // no time left.
  kUnknown,
};

// Reads all of it and checks every CRC, in bounded memory; gives up at `deadline`. `why` says what
// is damaged.
CheckpointVerdict CheckCheckpoint(FileSystem& fs, const FoundCheckpoint& checkpoint,
                                  const Clock& clock, Deadline deadline, std::string* why);

// Checks the newest TensorFlow checkpoint of each directory, of three directories at most, the
// newest ones. For one that is damaged: a note that names it and the newest good one that is older
// and lies in the same directory. `known` is sorted, the newest first.
std::vector<Note> CheckNewest(FileSystem& fs, const std::vector<FoundCheckpoint>& known,
                              const Clock& clock, Deadline deadline);

}  // namespace everstep
