// tests: the fuzz target of bundle indices, as libFuzzer calls it, and what its drivers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Opens and reads a bundle whose index is these bytes; its data files are DataFile()s. Ends the
// process when the reader breaks its contract. Always 0. One thread.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace everstep::fuzz {

// Bundles of 1 to this many shards find data files.
inline constexpr int kMaxShards = 4;
// What LLVMFuzzerTestOneInput does; whether the bundle was taken.
bool TryIndex(std::string_view index);
// The bytes of each of them: those of the seeds' tensors.
const std::string& DataFile();

}  // namespace everstep::fuzz
