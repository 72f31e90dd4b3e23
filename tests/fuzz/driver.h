// tests: what the programs have in common that run a fuzz target without libFuzzer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

namespace everstep::fuzz {

// Which mutations to try, by PROGRAM [FROM COUNT].
struct Range {
  uint64_t from = 0, count = 0;
};

// PROGRAM FILE... tries each file's text, and the answer is nothing: then the program is done. A
// file that cannot be opened ends it with 1.
inline std::optional<Range> RangeOrFiles(
    int argc, char** argv, uint64_t default_count,
    const std::function<void(const std::string& name, const std::string& text)>& try_text) {
  const bool numbers = argc == 3 && std::strtoull(argv[2], nullptr, 10) > 0;
  if (numbers)
    return Range{std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10)};
  if (argc < 2) return Range{0, default_count};
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file.good()) {
      std::fprintf(stderr, "%s: cannot open %s\n", argv[0], argv[i]);
      std::exit(1);
    }
    try_text(argv[i], {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }
  return std::nullopt;
}

}  // namespace everstep::fuzz
