// tests: wrong bundle indices.
#include "mutations.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"
#include "everstep/io/table_reader.h"

#include "bundle_index_fuzz.h"

namespace everstep::fuzz {
namespace {

// The stream of random numbers of one mutation.
class Dice {
 public:
  explicit Dice(uint64_t key) : key_(Mix64(key)) {}
  uint64_t Next() { return RandomAt(key_, k_++); }
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(Next() % n); }
  bool Chance(int one_in) { return Below(static_cast<size_t>(one_in)) == 0; }

 private:
  const uint64_t key_;
  uint64_t k_ = 0;
};

uint64_t HugeNumber(Dice* dice) {
  static constexpr uint64_t kNumbers[] = {0,
                                          1,
                                          127,
                                          128,
                                          255,
                                          256,
                                          257,
                                          4096,
                                          65535,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x100000000,
                                          uint64_t{1} << 40,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffff};
  return kNumbers[dice->Below(std::size(kNumbers))] + dice->Below(2) * dice->Below(16);
}

format::BundleEntryProto EntryOf(int32_t dtype, std::vector<int64_t> shape, int64_t offset,
                                 int64_t size, int shard) {
  format::BundleEntryProto entry;
  entry.set_dtype(dtype);
  auto* shape_proto = entry.mutable_shape();
  for (int64_t dim : shape) shape_proto->add_dim()->set_size(dim);
  entry.set_shard_id(shard);
  entry.set_offset(offset);
  entry.set_size(size);
  entry.set_crc32c(
      MaskCrc32c(Crc32c(std::string_view(DataFile())
                            .substr(static_cast<size_t>(offset), static_cast<size_t>(size)))));
  return entry;
}

std::string Header(int shards) {
  format::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.mutable_version()->set_producer(1);
  return header.SerializeAsString();
}

// Tensors of all widths over DataFile(), in `shards` files.
Entries SampleEntries(int shards) {
  Entries entries = {{"", Header(shards)}};
  const std::vector<std::pair<int32_t, int64_t>> types = {{1, 4}, {9, 8}, {4, 1}, {14, 2}, {10, 1}};
  std::vector<int64_t> next(static_cast<size_t>(shards));
  for (int i = 0; i < 24; ++i) {
    const auto [dtype, width] = types[static_cast<size_t>(i) % types.size()];
    const int shard = i % shards;
    const int64_t size = 2 * width;
    int64_t& offset = next[static_cast<size_t>(shard)];
    const std::string name =
        std::string("model/layer_") + static_cast<char>('a' + i) + "/.ATTRIBUTES/VARIABLE_VALUE";
    entries.emplace_back(name, EntryOf(dtype, {2, 1}, offset, size, shard).SerializeAsString());
    offset += size;
  }
  return entries;
}

// As TensorFlow saves a partitioned variable: the whole under its name, a piece under a slice key.
std::string SlicedIndex() {
  Entries entries = {{"", Header(1)}};
  const std::string key("\0w\0\1\1\2\x80\x82\x80\x7f", 10);
  entries.emplace_back(key, EntryOf(1, {2, 3}, 0, 24, 0).SerializeAsString());
  format::BundleEntryProto whole;
  whole.set_dtype(1);
  whole.mutable_shape()->add_dim()->set_size(4);
  whole.mutable_shape()->add_dim()->set_size(3);
  auto* rows = whole.add_slices()->add_extent();
  rows->set_length(2);
  whole.mutable_slices(0)->add_extent();
  entries.emplace_back("w", whole.SerializeAsString());
  return BuildTable(entries, 100, 16);
}

// Written by BundleWriter, with checksums that are right for one shard as far as DataFile() goes.
std::string WrittenIndex(int shards) {
  MemoryFileSystem fs;
  std::string bytes = DataFile();
  auto* data = reinterpret_cast<std::byte*>(bytes.data());
  BundleWriter writer(fs, "/w");
  const std::vector<absl::Status> statuses = {
      writer.Add({"kernel", DType::kFloat32, {4, 4}, data}),
      writer.Add({"mask", DType::kUInt8, {2, 5}, data + 64}),
      writer.AddString("note", "hello"),
      writer.AddInt64("step", 7),
      writer.Add({"zero", DType::kFloat64, {0, 3}, data}),
      writer.WriteIndex(shards),
  };
  for (const absl::Status& status : statuses) {
    if (!status.ok()) std::abort();
  }
  return ReadWholeFile(fs, "/w.index").value();
}

Entries EntriesOf(const std::string& index) {
  Entries entries;
  const absl::Status status =
      ForEachTableEntry(index, "seed", [&](std::string_view key, std::string_view value) {
        entries.emplace_back(std::string(key), std::string(value));
        return absl::OkStatus();
      });
  if (!status.ok()) {
    std::fprintf(stderr, "a seed is not read: %s\n", status.ToString().c_str());
    std::abort();
  }
  return entries;
}

void ChangeBytes(std::string* bytes, const std::vector<std::string>& seeds, Dice* dice) {
  if (bytes->empty()) return;
  const size_t at = dice->Below(bytes->size());
  switch (dice->Below(10)) {
    case 0:
    case 1:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << dice->Below(8)));
      break;
    case 2:
      (*bytes)[at] = static_cast<char>(dice->Next());
      break;
    case 3:
      bytes->resize(at);
      break;
    case 4:
      bytes->insert(at, dice->Below(40), static_cast<char>(dice->Next()));
      break;
    case 5:
      bytes->erase(at, dice->Below(40));
      break;
    case 6: {  // a varint that says something else
      std::string number;
      AppendVarint(&number, HugeNumber(dice));
      bytes->replace(at, std::min(bytes->size() - at, 1 + dice->Below(10)), number);
      break;
    }
    case 7: {  // one stretch in another's place
      const size_t from = dice->Below(bytes->size());
      const size_t n = std::min(dice->Below(120), bytes->size() - std::max(at, from));
      const std::string piece = bytes->substr(from, n);
      bytes->replace(at, n, piece);
      break;
    }
    case 8: {  // another seed's end
      const std::string& other = seeds[dice->Below(seeds.size())];
      bytes->resize(at);
      bytes->append(other, dice->Below(other.size()), std::string::npos);
      break;
    }
    default: {  // a number of four bytes: restart counts and offsets
      const auto number = static_cast<uint32_t>(HugeNumber(dice));
      std::memcpy(bytes->data() + at, &number, std::min<size_t>(4, bytes->size() - at));
      break;
    }
  }
}

// One field of an entry, or a handful of them, says something else.
void ChangeProto(std::string* value, const Entries& all, Dice* dice) {
  format::BundleEntryProto entry;
  if (!entry.ParseFromString(*value)) return;
  const auto huge = static_cast<int64_t>(HugeNumber(dice));
  switch (dice->Below(9)) {
    case 0:
      entry.set_size(huge);
      break;
    case 1:
      entry.set_offset(huge);
      break;
    case 2:
      entry.set_shard_id(static_cast<int32_t>(huge));
      break;
    case 3:
      entry.set_dtype(dice->Chance(2) ? 7 : static_cast<int32_t>(huge));
      break;
    case 4:
      entry.mutable_shape()->add_dim()->set_size(huge);
      break;
    case 5:
      for (size_t i = dice->Below(300); i > 0; --i) entry.mutable_shape()->add_dim()->set_size(1);
      break;
    case 6:
      entry.add_slices()->add_extent()->set_length(huge);
      break;
    case 7: {  // the place of another: an overlap
      format::BundleEntryProto other;
      if (!other.ParseFromString(all[dice->Below(all.size())].second)) break;
      entry.set_offset((other.offset() & 0xffff) + static_cast<int64_t>(dice->Below(2)));
      break;
    }
    default:
      entry.set_crc32c(static_cast<uint32_t>(dice->Next()));
      break;
  }
  *value = entry.SerializeAsString();
}

void ChangeHeader(std::string* value, Dice* dice) {
  format::BundleHeaderProto header;
  if (!header.ParseFromString(*value)) return;
  const auto huge = static_cast<int32_t>(HugeNumber(dice));
  switch (dice->Below(3)) {
    case 0:
      header.set_num_shards(dice->Chance(2) ? 1 + static_cast<int>(dice->Below(5)) : huge);
      break;
    case 1:
      header.set_endianness(static_cast<format::BundleHeaderProto::Endianness>(huge));
      break;
    default:
      header.mutable_version()->set_min_consumer(huge);
      break;
  }
  *value = header.SerializeAsString();
}

void ChangeEntries(Entries* entries, const std::vector<std::string>& seeds, Dice* dice) {
  if (entries->empty()) return;
  const size_t at = dice->Below(entries->size());
  auto& [key, value] = (*entries)[at];
  switch (dice->Below(10)) {
    case 0:
      ChangeHeader(&entries->front().second, dice);
      break;
    case 1:
      entries->erase(entries->begin() + static_cast<ptrdiff_t>(at));
      break;
    case 2:
      std::swap((*entries)[at], (*entries)[dice->Below(entries->size())]);
      break;
    case 3:
      entries->insert(entries->begin() + static_cast<ptrdiff_t>(at), (*entries)[at]);
      break;
    case 4:
      ChangeBytes(&key, seeds, dice);
      break;
    case 5:
      ChangeBytes(&value, seeds, dice);
      break;
    case 6:
      key.insert(0, 1, '\0');  // into a slice's key
      break;
    default:
      ChangeProto(&value, *entries, dice);
      break;
  }
}

// A table of these entries whose handles go wrong: back, twice, into the index or outside.
std::string Misdirect(const Entries& entries, Dice* dice) {
  TableBytes table;
  std::vector<std::pair<uint64_t, uint64_t>> handles;
  const size_t per_block = 1 + dice->Below(8);
  for (size_t i = 0; i < entries.size(); i += per_block) {
    const size_t end = std::min(i + per_block, entries.size());
    handles.push_back(table.AddBlock(Entries(entries.begin() + static_cast<ptrdiff_t>(i),
                                             entries.begin() + static_cast<ptrdiff_t>(end)),
                                     1 + static_cast<int>(dice->Below(16))));
  }
  const auto again = handles[dice->Below(handles.size())];
  auto& victim = handles[dice->Below(handles.size())];
  switch (dice->Below(4)) {
    case 0:
      handles.insert(handles.end(), 1 + dice->Below(30), again);
      break;
    case 1:
      victim = again;
      break;
    case 2:
      victim.first = table.bytes().size() + dice->Below(64);  // the metaindex, the index, between
      break;
    default:
      (dice->Chance(2) ? victim.first : victim.second) = HugeNumber(dice);
      break;
  }
  return table.Finish(handles);
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      absl::HexStringToBytes(  // TensorFlow's, of float scalars a, b and c
          "00000608011a02080100010b61080112002804350638271f00010d6208011200200428043510fd784f00010d"
          "6308011200200828043"
          "5efd682c3000000000100000000e415b6bc000000000100000000c0f2a1b0000102640042000000000100"
          "00000058b2e9f74708540e000000000000000000000000000000000000000000000000000000000000000000"
          "00000057fb808b247547db"),
      WrittenIndex(1),
      WrittenIndex(3),
      SlicedIndex(),
      BuildTable(SampleEntries(1), 100, 16),
      BuildTable(SampleEntries(2), 7, 16),
      BuildTable(SampleEntries(kMaxShards), 3, 2),
  };
}

std::string Mutate(const std::vector<std::string>& seeds, uint64_t n) {
  Dice dice(n);
  std::string bytes = seeds[dice.Below(seeds.size())];
  const size_t changes = 1 + dice.Below(4);
  if (dice.Chance(2)) {
    for (size_t i = 0; i < changes; ++i) ChangeBytes(&bytes, seeds, &dice);
    if (dice.Chance(2)) Reseal(&bytes);
    return bytes;
  }
  Entries entries = EntriesOf(bytes);
  if (dice.Chance(6)) return Misdirect(entries, &dice);
  for (size_t i = 0; i < changes; ++i) ChangeEntries(&entries, seeds, &dice);
  if (!entries.empty() && dice.Chance(8)) return Misdirect(entries, &dice);
  return BuildTable(entries, 1 + dice.Below(30), 1 + static_cast<int>(dice.Below(40)));
}

}  // namespace everstep::fuzz
