// tests: runs the fuzz target of TF_CONFIG without libFuzzer: on files, or on mutations of its own.
//   tf_config_fuzz [FROM COUNT]     mutations FROM .. FROM+COUNT-1 (default 0 100000)
//   tf_config_fuzz FILE...          these texts, e.g. what libFuzzer found
#include <cstdio>
#include <string>

#include "driver.h"
#include "tf_config_fuzz.h"

int main(int argc, char** argv) {
  const auto range = everstep::fuzz::RangeOrFiles(
      argc, argv, 100000,
      [](const std::string&, const std::string& text) { everstep::fuzz::TryTfConfig(text); });
  if (!range.has_value()) return 0;
  const auto [from, count] = *range;
  const std::vector<std::string> seeds = everstep::fuzz::TfConfigSeeds();
  for (const std::string& seed : seeds) everstep::fuzz::TryTfConfig(seed);
  uint64_t taken = 0;
  for (uint64_t n = from; n < from + count; ++n) {
    taken += everstep::fuzz::TryTfConfig(everstep::fuzz::MutateTfConfig(seeds, n)) ? 1 : 0;
  }
  std::printf("%llu mutations: %llu were taken\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(taken));
  // Mutations that are all refused, or none, would test one half only.
  if (count >= 10000 && (taken * 20 < count || taken * 20 > count * 19)) {
    std::fprintf(stderr, "tf_config_fuzz: broken: the mutations are one-sided\n");
    return 1;
  }
  return 0;
}
