// tests: small indices that ask for much memory or time. Each is well formed byte by byte.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

#include "bundle_index_fuzz.h"
#include "mutations.h"

namespace everstep::fuzz {
namespace {

std::string HeaderOf(int shards) {
  format::BundleHeaderProto header;
  header.set_num_shards(shards);
  return header.SerializeAsString();
}

std::string OneEntry(const std::string& value) {
  return BuildTable({{"", HeaderOf(1)}, {"t", value}}, 10, 16);
}

// Each key one byte longer than the one before it: five bytes of the file make the n-th name of n.
std::string GrowingKeys() {
  Entries entries = {{"", HeaderOf(1)}};
  std::string key;
  for (int i = 0; i < 20000; ++i) entries.emplace_back(key += 'k', "");
  return BuildTable(entries, entries.size(), 1 << 30);
}

// One block without entries, but large, to be read for each of many handles.
std::string OneBlockManyTimes() {
  TableBytes table;
  std::vector<std::pair<uint64_t, uint64_t>> handles = {table.AddBlock({{"", HeaderOf(1)}}, 16)};
  std::string empty;  // nothing but restarts
  for (int i = 0; i < 100000; ++i) AppendLittle<uint32_t>(&empty, 0);
  AppendLittle<uint32_t>(&empty, 100000);
  handles.insert(handles.end(), 20000, table.AddRaw(empty));
  return table.Finish(handles);
}

// Many tensors that are all the same bytes of the data file: little to store, much to read.
std::string ManyTensorsInOnePlace() {
  Entries entries = {{"", HeaderOf(1)}};
  format::BundleEntryProto entry;
  entry.set_dtype(4);
  entry.mutable_shape()->add_dim()->set_size(static_cast<int64_t>(DataFile().size()));
  entry.set_size(static_cast<int64_t>(DataFile().size()));
  entry.set_crc32c(MaskCrc32c(Crc32c(DataFile())));
  for (int i = 0; i < 20000; ++i) {
    entries.emplace_back(absl::StrFormat("t%05d", i), entry.SerializeAsString());
  }
  return BuildTable(entries, 100, 16);
}

std::string ManyNamesWithoutTensor() {
  Entries entries = {{"", HeaderOf(1)}};
  for (int i = 0; i < 50000; ++i) entries.emplace_back(absl::StrFormat("%05d", i), "");
  return BuildTable(entries, entries.size(), 16);
}

std::string ManyDimensions() {
  std::string shape;
  for (int i = 0; i < 200000; ++i) shape += std::string("\x12\0", 2);
  std::string value = "\x12";
  AppendVarint(&value, shape.size());
  return OneEntry(value + shape);
}

std::string ManySlices(bool with_extents) {
  std::string value;
  const std::string extents = with_extents ? std::string(40, '\n') : "";
  std::string slice;
  for (char c : extents) slice += {c, '\0'};
  for (int i = 0; i < (with_extents ? 5000 : 200000); ++i) {
    value += '\x3a';
    AppendVarint(&value, slice.size());
    value += slice;
  }
  return OneEntry(value);
}

}  // namespace

std::vector<Bomb> Bombs() {
  return {
      {"growing keys", GrowingKeys(), false},
      {"one block many times", OneBlockManyTimes(), false},
      {"many tensors in one place", ManyTensorsInOnePlace(), false},
      {"many names without a tensor", ManyNamesWithoutTensor(), true},
      {"many dimensions", ManyDimensions(), true},
      {"many slices", ManySlices(false), true},
      {"many extents", ManySlices(true), true},
      {"99,999 shards", BuildTable({{"", HeaderOf(99999)}}, 1, 16), true},
      {"a hundred thousand shards", BuildTable({{"", HeaderOf(100000)}}, 1, 16), false},
  };
}

}  // namespace everstep::fuzz
