// tests: libFuzzer's way to mutate indices: from the seeds, and most of the time with right
// checksums, which it would never guess.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mutations.h"
#include "table_bytes.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  static const std::vector<std::string> seeds = everstep::fuzz::Seeds();
  std::string bytes;
  if (size < 48 || seed % 64 == 0) {
    bytes = everstep::fuzz::Mutate(seeds, seed);
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
    bytes.assign(reinterpret_cast<const char*>(data), size);
    if (seed % 4 != 1) everstep::fuzz::Reseal(&bytes);
  }
  size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}
