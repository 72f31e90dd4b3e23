// learner: descriptions of the kernels, from the libraries that are loaded.
#include "everstep/learner/kernels_info.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "everstep/base/keyed_random.h"

namespace everstep {
namespace {

// The function called `name` of any loaded library, or null. Asked at run time: which BLAS stands
// behind libblas.so.3 is the machine's choice, not the build's.
template <typename Function>
Function* Loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

uint64_t HashText(uint64_t h, const std::string& text) {
  h = HashKey({h, text.size()});
  for (const char c : text) h = HashKey({h, static_cast<unsigned char>(c)});
  return h;
}

}  // namespace

std::string BlasDescription() {
  const auto config = Loaded<char*()>("openblas_get_config");
  const auto core = Loaded<char*()>("openblas_get_corename");
  if (config == nullptr || core == nullptr) return "unknown BLAS";
  return absl::StrCat(config(), " core ", core());
}

std::string CpuCapability() {
  // ATen exports the name only inside this text: "  - CPU capability usage: AVX512".
  static constexpr char kLabel[] = "CPU capability usage: ";
  const std::string config = at::show_config();
  const size_t begin = config.find(kLabel);
  if (begin == std::string::npos) return "unknown";
  const size_t word = begin + sizeof kLabel - 1;
  return config.substr(word, config.find('\n', word) - word);
}

std::string OneDnnDescription() {
  struct Version {
    int major, minor, patch;  // dnnl_version_t begins so
  };
  const auto version = Loaded<const Version*()>("dnnl_version");
  const auto isa = Loaded<int()>("dnnl_get_effective_cpu_isa");
  if (version == nullptr || isa == nullptr) return "no oneDNN";
  const Version& v = *version();
  return absl::StrCat("oneDNN ", v.major, ".", v.minor, ".", v.patch, " isa 0x", absl::Hex(isa()));
}

std::string TorchVersion() { return TORCH_VERSION; }

uint64_t ModelFingerprint(const StateLayout& layout) {
  uint64_t h = HashKey({static_cast<uint64_t>(layout.state_bytes),
                        static_cast<uint64_t>(layout.gradient_size),
                        static_cast<uint64_t>(layout.statistics_size), layout.entries.size(),
                        layout.buckets.size()});
  for (const StateLayout::Entry& entry : layout.entries) {
    h = HashText(h, entry.name);
    h = HashKey({h, static_cast<uint64_t>(entry.dtype), entry.shape.size(),
                 static_cast<uint64_t>(entry.offset)});
    for (const int64_t d : entry.shape) h = HashKey({h, static_cast<uint64_t>(d)});
  }
  for (const Bucket& bucket : layout.buckets) {
    h = HashKey({h, static_cast<uint64_t>(bucket.offset), static_cast<uint64_t>(bucket.size)});
  }
  return h;
}

std::string LearnerFingerprint() {
  return absl::StrCat("torch ", TorchVersion(), "; ATen ", CpuCapability(), "; ", BlasDescription(),
                      "; ", OneDnnDescription());
}

}  // namespace everstep
