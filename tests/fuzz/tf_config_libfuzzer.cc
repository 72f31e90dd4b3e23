// tests: libFuzzer's way to mutate TF_CONFIGs: its own, and now and then ours.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tf_config_fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  static const std::vector<std::string> seeds = everstep::fuzz::TfConfigSeeds();
  if (size >= 2 && seed % 4 != 0) return LLVMFuzzerMutate(data, size, max_size);
  // Of ours, what libFuzzer has now is one more seed.
  std::vector<std::string> texts = seeds;
  texts.emplace_back(reinterpret_cast<const char*>(data), size);
  const std::string text = everstep::fuzz::MutateTfConfig(texts, seed);
  size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}
