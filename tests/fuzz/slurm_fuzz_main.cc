// tests: runs the fuzz target of Slurm's texts without libFuzzer: on files, or on mutations of its
// own.
//   slurm_fuzz [FROM COUNT]     mutations FROM .. FROM+COUNT-1 (default 0 100000)
//   slurm_fuzz FILE...          these texts, e.g. what libFuzzer found
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver.h"
#include "everstep/base/keyed_random.h"
#include "slurm_fuzz.h"

namespace {

const std::vector<std::string> kHosts = {
    "n[01-03,07],login,rack[1-2]n[1-2]",
    "n1",
    "gpu-[0008-0011]-ib,b",
    "a[1-2]b[3-4]c[5-6]d[7,9]",
    " a,,b\tc\n",
    "[1-3],n[0-100000]",
    "n[1-9]x[999999999999999990-999999999999999999]",
};
const std::vector<std::string> kTasks = {"2(x3),1", "4", "1(x1000),3(x2),2", "100000(x1)"};

// The n-th text from `seeds`: one of them with up to four changes, of the characters that matter.
std::string Mutate(const std::vector<std::string>& seeds, uint64_t n) {
  constexpr char kCharacters[] = "[]-,,()x0019a. \n\xff";
  uint64_t k = 0;
  const auto draw = [&](uint64_t below) { return everstep::RandomAt(n, k++) % below; };
  std::string text = seeds[draw(seeds.size())];
  for (uint64_t changes = draw(5); changes > 0; --changes) {
    const size_t at = draw(text.size() + 1);
    const char c = kCharacters[draw(sizeof kCharacters)];  // the last one is NUL
    const size_t length = at < text.size() ? 1 + draw(3) : 0;
    switch (draw(4)) {
      case 0:
        text.insert(at, 1, c);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.replace(at, length, 1, c);
        break;
      default:
        text.insert(draw(text.size() + 1), text.substr(at, 8));
    }
  }
  return text;
}

void Expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "slurm_fuzz: broken: %s\n", what.c_str());
  std::abort();
}

// Mutations that are all refused, or none, would test one half of a reader only.
void Run(const char* what, const std::vector<std::string>& seeds, bool (*read)(std::string_view),
         uint64_t from, uint64_t count) {
  uint64_t taken = 0;
  for (uint64_t n = from; n < from + count; ++n) taken += read(Mutate(seeds, n)) ? 1 : 0;
  std::printf("%llu mutations of %s: %llu were taken\n", static_cast<unsigned long long>(count),
              what, static_cast<unsigned long long>(taken));
  Expect(count < 10000 || (taken > count / 20 && taken < count - count / 20),
         "the mutations are one-sided");
}

}  // namespace

int main(int argc, char** argv) {
  const auto range = everstep::fuzz::RangeOrFiles(
      argc, argv, 100000, [](const std::string&, const std::string& text) {
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      });
  if (!range.has_value()) return 0;
  const auto [from, count] = *range;
  Run("host lists", kHosts, everstep::fuzz::TrySlurmHosts, from, count);
  Run("tasks per node", kTasks, everstep::fuzz::TrySlurmTasks, from, count);
  return 0;
}
