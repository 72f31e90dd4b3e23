// tests: what must hold for any bytes in a bundle's index.
#include "bundle_index_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "everstep/base/tensor_span.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/bundle_reader.h"
#include "everstep/io/bundle_writer.h"

namespace everstep::fuzz {

const std::string& DataFile() {
  static const std::string bytes = [] {
    std::string made;
    for (int i = 0; i < 256; ++i) made.push_back(static_cast<char>(i * 7));
    return made;
  }();
  return bytes;
}

namespace {

constexpr char kPrefix[] = "/bundle/state";

void Require(bool holds, const char* rule, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "bundle_index_fuzz: broken: %s: %s\n", rule, detail.c_str());
  std::abort();
}

void Put(FileSystem& fs, const std::string& path, std::string_view bytes) {
  auto file = fs.OpenForWriting(path, FileSystem::Create::kTruncate);
  Require(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok(), "setting up", path);
}

MemoryFileSystem& Files() {
  static MemoryFileSystem* fs = [] {
    auto* made = new MemoryFileSystem;
    Require(made->CreateDirectories("/bundle").ok(), "setting up", kPrefix);
    for (int shards = 1; shards <= kMaxShards; ++shards) {
      for (int i = 0; i < shards; ++i) Put(*made, BundleDataPath(kPrefix, i, shards), DataFile());
    }
    return made;
  }();
  return *fs;
}

// What the reader may say of a bundle that it does not take.
void CheckRefusal(const absl::Status& status) {
  const std::string text(status.message());
  Require(absl::IsDataLoss(status) || absl::IsUnimplemented(status), "a refusal's code",
          status.ToString());
  Require(text.find(kPrefix) == 0, "a refusal names the file", text);
  Require(text.find('\n') == std::string::npos, "a refusal is one line", text);
}

void ReadAll(const BundleReader& reader) {
  const auto file_size = static_cast<int64_t>(DataFile().size());
  std::string_view last;
  for (const BundleEntry& entry : reader.entries()) {
    Require(last < entry.name, "names rise", entry.name);
    last = entry.name;
    Require(reader.Find(entry.name) == &entry, "what is there is found", entry.name);
    Require(NumElements(entry.shape) >= 0, "shapes are possible", entry.name);
    if (entry.sliced) continue;
    Require(entry.offset >= 0 && entry.size >= 0 && entry.size <= file_size - entry.offset,
            "tensors lie inside their file", entry.name);
    if (entry.is_string()) {
      const auto strings = reader.ReadStrings(entry);
      if (!strings.ok()) {
        CheckRefusal(strings.status());
      } else {
        Require(static_cast<int64_t>(strings->size()) == NumElements(entry.shape),
                "as many strings as the shape says", entry.name);
      }
      continue;
    }
    std::string bytes(static_cast<size_t>(entry.size), '\0');
    const absl::Status status =
        reader.Read(entry, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    if (!status.ok()) CheckRefusal(status);
  }
  const absl::Status status = reader.Verify();
  if (!status.ok()) CheckRefusal(status);
}

}  // namespace

bool TryIndex(std::string_view index) {
  FileSystem& fs = Files();
  Put(fs, std::string(kPrefix) + ".index", index);
  const auto reader = BundleReader::Open(fs, kPrefix);
  if (!reader.ok()) {
    CheckRefusal(reader.status());
    return false;
  }
  ReadAll(**reader);
  return true;
}

}  // namespace everstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  everstep::fuzz::TryIndex({reinterpret_cast<const char*>(data), size});
  return 0;
}
