// env: GPUs, as the driver's files tell.
#include "everstep/env/gpu.h"

#include <dirent.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string_view>

namespace everstep {
namespace {

int CountEntries(const std::string& directory,
                 const std::function<bool(std::string_view)>& counts) {
  DIR* open = opendir(directory.c_str());
  if (open == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(open)) count += counts(entry->d_name) ? 1 : 0;
  closedir(open);
  return count;
}

}  // namespace

int CountGpus(const std::string& driver, const std::string& devices) {
  const int known = CountEntries(driver, [](std::string_view name) { return name[0] != '.'; });
  if (known > 0) return known;
  // Some containers hide the driver's directory. Beside nvidia0 there are nvidiactl and others.
  return CountEntries(devices, [](std::string_view name) {
    constexpr std::string_view kPrefix = "nvidia";
    if (name.substr(0, kPrefix.size()) != kPrefix) return false;
    const std::string_view number = name.substr(kPrefix.size());
    return !number.empty() && std::all_of(number.begin(), number.end(),
                                          [](unsigned char c) { return std::isdigit(c) != 0; });
  });
}

}  // namespace everstep
