// io: bundle reader.
#include "everstep/io/bundle_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"
#include "everstep/io/table_reader.h"

namespace everstep {
namespace {

constexpr int kOurVersion = 1;
constexpr int kMaxShards = 99999;
constexpr int64_t kPiece = int64_t{1} << 20;

// Bytes an element of TensorFlow's type takes in a file; 0 for strings, variants and unknown ones.
int64_t StoredBytes(int32_t dtype) {
  switch (dtype) {
    case 4:
    case 6:
    case 10:
    case 11:
    case 12:
    case 24:
    case 25:
    case 29:
    case 30:
      return 1;
    case 5:
    case 14:
    case 15:
    case 16:
    case 17:
    case 19:
      return 2;
    case 1:
    case 3:
    case 13:
    case 22:
      return 4;
    case 2:
    case 8:
    case 9:
    case 23:
      return 8;
    case 18:
      return 16;
    default:
      return 0;
  }
}

uint32_t ExtendWithLength(uint32_t crc, uint64_t length) {
  std::string bytes;
  if (length <= UINT32_MAX) {
    AppendLittle(&bytes, static_cast<uint32_t>(length));
  } else {
    AppendLittle(&bytes, length);
  }
  return ExtendCrc32c(crc, AsBytes(bytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(FileSystem& fs,
                                                                 const std::string& prefix) {
  std::unique_ptr<BundleReader> reader(new BundleReader);
  reader->prefix_ = prefix;
  const std::string path = prefix + ".index";
  EV_ASSIGN_OR_RETURN(const std::string index, ReadWholeFile(fs, path));
  bool header = false;
  EV_RETURN_IF_ERROR(
      ForEachTableEntry(index, path, [&](std::string_view key, std::string_view value) {
        if (header) return reader->ParseEntry(key, value);
        header = true;
        if (!key.empty()) return absl::DataLossError(absl::StrCat(path, ": has no bundle header"));
        return reader->ParseHeader(value);
      }));
  if (!header) return absl::DataLossError(absl::StrCat(path, ": has no bundle header"));
  EV_RETURN_IF_ERROR(reader->OpenShards(fs));
  for (const BundleEntry& entry : reader->entries_) EV_RETURN_IF_ERROR(reader->CheckPlace(entry));
  for (const BundleEntry& entry : reader->slices_) EV_RETURN_IF_ERROR(reader->CheckPlace(entry));
  EV_RETURN_IF_ERROR(reader->CheckOverlaps());
  return reader;
}

absl::Status BundleReader::ParseHeader(std::string_view value) {
  format::BundleHeaderProto header;
  const std::string path = prefix_ + ".index";
  if (!header.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      header.num_shards() < 1 || header.num_shards() > kMaxShards) {
    return absl::DataLossError(absl::StrCat(path, ": damaged bundle header"));
  }
  if (header.endianness() != format::BundleHeaderProto::LITTLE) {
    return absl::UnimplementedError(absl::StrCat(path, ": written on a big-endian machine"));
  }
  if (header.version().min_consumer() > kOurVersion) {
    return absl::UnimplementedError(absl::StrCat(path, ": needs a reader of version ",
                                                 header.version().min_consumer(),
                                                 ", this one is version ", kOurVersion));
  }
  num_shards_ = header.num_shards();
  return absl::OkStatus();
}

absl::Status BundleReader::ParseEntry(std::string_view key, std::string_view value) {
  format::BundleEntryProto proto;
  BundleEntry entry;
  entry.name = std::string(key);
  if (!proto.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Damaged(entry, "its index entry does not parse");
  }
  entry.dtype = proto.dtype();
  for (const auto& dim : proto.shape().dim()) entry.shape.push_back(dim.size());
  entry.shard = proto.shard_id();
  entry.offset = proto.offset();
  entry.size = proto.size();
  entry.crc = UnmaskCrc32c(proto.crc32c());
  entry.sliced = proto.slices_size() > 0;
  const bool slice = key.front() == '\0';
  (slice ? slices_ : entries_).push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status BundleReader::OpenShards(FileSystem& fs) {
  // Only those in use: a hostile header cannot make us open a hundred thousand files.
  std::vector<int> used;
  for (const auto* list : {&entries_, &slices_}) {
    for (const BundleEntry& entry : *list) {
      if (entry.shard < 0 || entry.shard >= num_shards_) return Damaged(entry, "no such shard");
      if (!entry.sliced) used.push_back(entry.shard);
    }
  }
  shards_.resize(num_shards_);
  for (int shard : used) {
    if (shards_[shard] != nullptr) continue;
    const std::string path = BundleDataPath(prefix_, shard, num_shards_);
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = fs.OpenForReading(path);
    if (absl::IsNotFound(file.status())) {
      // The index says that it is there: a hole, not a wrong name.
      return absl::DataLossError(absl::StrCat(path, ": missing data file of a checkpoint"));
    }
    if (!file.ok()) return file.status();
    shards_[shard] = std::move(*file);
  }
  return absl::OkStatus();
}

absl::Status BundleReader::CheckPlace(const BundleEntry& entry) const {
  const int64_t elements = NumElements(entry.shape);
  if (elements < 0) return Damaged(entry, "impossible shape");
  if (entry.sliced) return absl::OkStatus();
  const int64_t end = shards_[entry.shard]->size();
  if (entry.offset < 0 || entry.size < 0 || entry.offset > end || entry.size > end - entry.offset) {
    return Damaged(entry, absl::StrCat("it ends beyond the file's ", end, " bytes; truncated?"));
  }
  const int64_t width = StoredBytes(entry.dtype);
  // Not elements * width: that may overflow.
  if (width > 0 && (entry.size % width != 0 || entry.size / width != elements)) {
    return Damaged(entry,
                   absl::StrCat(entry.size, " bytes for shape ", ShapeToString(entry.shape)));
  }
  return absl::OkStatus();
}

// Tensors that share bytes would make reading all of them take any multiple of the files' size.
absl::Status BundleReader::CheckOverlaps() const {
  std::vector<const BundleEntry*> placed;
  for (const auto* list : {&entries_, &slices_}) {
    for (const BundleEntry& entry : *list) {
      if (!entry.sliced && entry.size > 0) placed.push_back(&entry);
    }
  }
  std::sort(placed.begin(), placed.end(), [](const BundleEntry* a, const BundleEntry* b) {
    return std::make_pair(a->shard, a->offset) < std::make_pair(b->shard, b->offset);
  });
  for (size_t i = 1; i < placed.size(); ++i) {
    const BundleEntry& before = *placed[i - 1];
    if (before.shard == placed[i]->shard && before.offset + before.size > placed[i]->offset) {
      return Damaged(*placed[i], "it overlaps another tensor");
    }
  }
  return absl::OkStatus();
}

absl::Status BundleReader::Damaged(const BundleEntry& entry, std::string_view why) const {
  const std::string path = entry.sliced || num_shards_ == 0
                               ? prefix_ + ".index"
                               : BundleDataPath(prefix_, entry.shard, num_shards_);
  return absl::DataLossError(absl::StrCat(path, ": tensor \"", absl::CHexEscape(entry.name),
                                          "\" at offset ", entry.offset, ": ", std::string(why)));
}

const BundleEntry* BundleReader::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const BundleEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

absl::Status BundleReader::Read(const BundleEntry& entry, absl::Span<std::byte> out) const {
  if (entry.sliced || entry.is_string() || static_cast<int64_t>(out.size()) != entry.size) {
    return absl::InternalError(
        absl::StrCat("cannot read tensor \"", entry.name, "\" into ", out.size(), " plain bytes"));
  }
  EV_RETURN_IF_ERROR(shards_[entry.shard]->ReadAt(entry.offset, out));
  if (Crc32c(out) != entry.crc) return Damaged(entry, "its checksum does not match");
  return absl::OkStatus();
}

absl::Status BundleReader::Stream(const BundleEntry& entry,
                                  absl::FunctionRef<void(absl::Span<const std::byte>)> on) const {
  if (entry.sliced || entry.is_string()) {
    return absl::InternalError(absl::StrCat("cannot stream tensor \"", entry.name, "\""));
  }
  std::string piece;
  uint32_t crc = 0;
  for (int64_t at = 0; at < entry.size;) {
    piece.resize(std::min(kPiece, entry.size - at));
    EV_RETURN_IF_ERROR(shards_[entry.shard]->ReadAt(entry.offset + at, AsWritableBytes(&piece)));
    crc = ExtendCrc32c(crc, AsBytes(piece));
    on(AsBytes(piece));
    at += static_cast<int64_t>(piece.size());
  }
  if (crc != entry.crc) return Damaged(entry, "its checksum does not match");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BundleReader::ReadStrings(const BundleEntry& entry) const {
  if (!entry.is_string() || entry.sliced) {
    return absl::InternalError(absl::StrCat("tensor \"", entry.name, "\" holds no strings"));
  }
  // As long as the file has bytes for it; each string takes one at least.
  const int64_t n = NumElements(entry.shape);
  if (n > entry.size) return Damaged(entry, "more strings than bytes");
  std::string stored(static_cast<size_t>(entry.size), '\0');
  EV_RETURN_IF_ERROR(shards_[entry.shard]->ReadAt(entry.offset, AsWritableBytes(&stored)));
  std::string_view rest = stored;
  std::vector<uint64_t> lengths;
  uint32_t crc = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t length = 0;
    if (!TakeVarint(&rest, &length)) return Damaged(entry, "a string's length does not parse");
    crc = ExtendWithLength(crc, length);
    lengths.push_back(length);
  }
  if (rest.size() < 4 || LoadLittle<uint32_t>(rest.data()) != MaskCrc32c(crc)) {
    return Damaged(entry, "the checksum of its strings' lengths does not match");
  }
  crc = ExtendCrc32c(crc, AsBytes(rest));  // the stored checksum and all the strings' bytes
  rest.remove_prefix(4);
  if (crc != entry.crc) return Damaged(entry, "its checksum does not match");
  std::vector<std::string> strings;
  for (uint64_t length : lengths) {
    if (length > rest.size()) return Damaged(entry, "a string ends beyond the tensor");
    strings.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) return Damaged(entry, "bytes are left over after its strings");
  return strings;
}

// What ReadStrings checks, without keeping the strings: they may be any number of gigabytes.
absl::Status BundleReader::CheckStrings(const BundleEntry& entry) const {
  const int64_t n = NumElements(entry.shape);
  if (n > entry.size) return Damaged(entry, "more strings than bytes");
  std::string piece;
  std::string_view rest;
  int64_t at = 0;
  // Until `wanted` bytes are there, or all that are left.
  const auto fill = [&](size_t wanted) -> absl::Status {
    if (rest.size() >= wanted || at == entry.size) return absl::OkStatus();
    std::string more(rest);
    const size_t kept = more.size();
    more.resize(kept + std::min(kPiece, entry.size - at));
    const auto space = AsWritableBytes(&more).subspan(kept);
    EV_RETURN_IF_ERROR(shards_[entry.shard]->ReadAt(entry.offset + at, space));
    at += static_cast<int64_t>(space.size());
    piece = std::move(more);
    rest = piece;
    return absl::OkStatus();
  };
  uint64_t strings = 0;
  bool too_long = false;
  uint32_t crc = 0;
  for (int64_t i = 0; i < n; ++i) {
    EV_RETURN_IF_ERROR(fill(10));  // bytes of the longest varint
    uint64_t length = 0;
    if (!TakeVarint(&rest, &length)) return Damaged(entry, "a string's length does not parse");
    crc = ExtendWithLength(crc, length);
    too_long |= length > static_cast<uint64_t>(entry.size) - strings;
    if (!too_long) strings += length;
  }
  EV_RETURN_IF_ERROR(fill(4));
  if (rest.size() < 4 || LoadLittle<uint32_t>(rest.data()) != MaskCrc32c(crc)) {
    return Damaged(entry, "the checksum of its strings' lengths does not match");
  }
  const uint64_t bytes = static_cast<uint64_t>(entry.size - at) + rest.size() - 4;
  while (true) {
    crc = ExtendCrc32c(crc, AsBytes(rest));
    rest = {};
    if (at == entry.size) break;
    EV_RETURN_IF_ERROR(fill(1));
  }
  if (crc != entry.crc) return Damaged(entry, "its checksum does not match");
  if (too_long || strings > bytes) return Damaged(entry, "a string ends beyond the tensor");
  if (strings < bytes) return Damaged(entry, "bytes are left over after its strings");
  return absl::OkStatus();
}

absl::Status BundleReader::Check(const BundleEntry& entry) const {
  if (entry.is_string()) return CheckStrings(entry);
  return Stream(entry, [](absl::Span<const std::byte>) {});
}

absl::Status BundleReader::Verify() const {
  for (const auto* list : {&entries_, &slices_}) {
    for (const BundleEntry& entry : *list) {
      if (!entry.sliced) EV_RETURN_IF_ERROR(Check(entry));
    }
  }
  return absl::OkStatus();
}

}  // namespace everstep
