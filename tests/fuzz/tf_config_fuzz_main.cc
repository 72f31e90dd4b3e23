// tests: runs the fuzz target of TF_CONFIG without libFuzzer: on files, or on mutations of its own.
//   tf_config_fuzz [FROM COUNT]     mutations FROM .. FROM+COUNT-1 (default 0 100000)
//   tf_config_fuzz FILE...          these texts, e.g. what libFuzzer found
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tf_config_fuzz.h"

namespace {

int RunFiles(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file.good()) {
      std::fprintf(stderr, "tf_config_fuzz: cannot open %s\n", argv[i]);
      return 1;
    }
    everstep::fuzz::TryTfConfig(
        std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool numbers = argc == 3 && std::strtoull(argv[2], nullptr, 10) > 0;
  if (argc > 1 && !numbers) return RunFiles(argc, argv);
  const uint64_t from = numbers ? std::strtoull(argv[1], nullptr, 10) : 0;
  const uint64_t count = numbers ? std::strtoull(argv[2], nullptr, 10) : 100000;
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
