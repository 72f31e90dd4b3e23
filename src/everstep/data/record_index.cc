// data: the index of records and the file it is kept in.
#include "everstep/data/record_index.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"
#include "everstep/io/publish.h"
#include "everstep/io/tfrecord.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

// A kept index: magic, uint64 size and sample hash of the record file, uint64 number of records,
// their payload lengths as varints, uint32 masked CRC of all before.
constexpr std::string_view kMagic = "EVINDEX1";
constexpr size_t kFixedBytes = 8 + 3 * 8;
constexpr int64_t kFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

// Hash of the size, the first and last 64 KiB and 16 pieces between them.
absl::StatusOr<uint64_t> SampleHash(const RandomAccessFile& file) {
  constexpr int64_t kEnd = 64 << 10, kPiece = 4 << 10, kPieces = 16;
  const int64_t size = file.size();
  std::string sample;
  auto add = [&](int64_t offset, int64_t bytes) {
    const size_t have = sample.size();
    sample.resize(have + static_cast<size_t>(bytes));
    return file.ReadAt(offset, AsWritableBytes(&sample).subspan(have));
  };
  AppendLittle(&sample, size);
  if (size <= 2 * kEnd + kPieces * kPiece) {
    EV_RETURN_IF_ERROR(add(0, size));
  } else {
    EV_RETURN_IF_ERROR(add(0, kEnd));
    const int64_t stride = (size - 2 * kEnd - kPiece) / (kPieces - 1);
    for (int64_t i = 0; i < kPieces; ++i) EV_RETURN_IF_ERROR(add(kEnd + i * stride, kPiece));
    EV_RETURN_IF_ERROR(add(size - kEnd, kEnd));
  }
  return XXH3_64bits(sample.data(), sample.size());
}

std::string Encode(int64_t size, uint64_t sample_hash, const std::vector<int64_t>& offsets) {
  std::string bytes(kMagic);
  AppendLittle(&bytes, size);
  AppendLittle(&bytes, sample_hash);
  AppendLittle<uint64_t>(&bytes, offsets.size() - 1);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    AppendVarint(&bytes, static_cast<uint64_t>(offsets[i + 1] - offsets[i] - kFrameBytes));
  }
  AppendLittle(&bytes, MaskCrc32c(Crc32c(bytes)));
  return bytes;
}

// The offsets in a kept index, or nothing when it is stale, damaged or of another version.
std::optional<std::vector<int64_t>> Decode(std::string_view bytes, int64_t size,
                                           uint64_t sample_hash) {
  if (bytes.size() < kFixedBytes + 4 || bytes.substr(0, 8) != kMagic) return std::nullopt;
  const auto crc = LoadLittle<uint32_t>(bytes.data() + bytes.size() - 4);
  bytes.remove_suffix(4);
  if (MaskCrc32c(Crc32c(bytes)) != crc) return std::nullopt;
  const auto records = LoadLittle<uint64_t>(bytes.data() + 24);
  if (LoadLittle<int64_t>(bytes.data() + 8) != size ||
      LoadLittle<uint64_t>(bytes.data() + 16) != sample_hash ||
      records > bytes.size() - kFixedBytes) {
    return std::nullopt;
  }
  bytes.remove_prefix(kFixedBytes);
  std::vector<int64_t> offsets = {0};
  offsets.reserve(records + 1);
  for (uint64_t i = 0; i < records; ++i) {
    uint64_t length = 0;
    const int64_t left = size - offsets.back() - kFrameBytes;
    if (!TakeVarint(&bytes, &length) || left < 0 || length > static_cast<uint64_t>(left)) {
      return std::nullopt;
    }
    offsets.push_back(offsets.back() + static_cast<int64_t>(length) + kFrameBytes);
  }
  if (!bytes.empty() || offsets.back() != size) return std::nullopt;
  return offsets;
}

absl::StatusOr<std::vector<int64_t>> Scan(FileSystem& fs, const std::string& path) {
  EV_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(fs, path));
  std::vector<int64_t> offsets = {0};
  while (true) {
    EV_ASSIGN_OR_RETURN(const int64_t length, reader.SkipNext());
    if (length < 0) return offsets;
    offsets.push_back(reader.offset());
  }
}

}  // namespace

absl::StatusOr<RecordIndex::File> RecordIndex::OpenFile(FileSystem& fs, const std::string& path,
                                                        bool keep, uint64_t* fingerprint) {
  File file;
  file.path = path;
  EV_ASSIGN_OR_RETURN(file.file, fs.OpenForReading(path));
  EV_ASSIGN_OR_RETURN(const uint64_t sample_hash, SampleHash(*file.file));
  const std::string kept_path = path + ".evindex";
  std::optional<std::vector<int64_t>> offsets;
  if (keep) {
    const absl::StatusOr<std::string> kept = ReadWholeFile(fs, kept_path);
    if (kept.ok()) offsets = Decode(*kept, file.file->size(), sample_hash);
  }
  if (!offsets.has_value()) {
    EV_ASSIGN_OR_RETURN(offsets, Scan(fs, path));
    if (keep) {
      const absl::Status status =
          PublishFile(fs, kept_path, Encode(file.file->size(), sample_hash, *offsets));
      // A read-only directory costs a scan at each start, nothing else.
      if (!status.ok()) log::Debug("data", "index not kept: {}", std::string(status.message()));
    }
  }
  file.offsets = std::move(*offsets);
  const uint64_t lengths_hash =
      XXH3_64bits(file.offsets.data(), file.offsets.size() * sizeof(int64_t));
  *fingerprint = HashKey({*fingerprint, sample_hash, lengths_hash});
  return file;
}

absl::StatusOr<std::shared_ptr<const RecordIndex>> RecordIndex::Open(
    FileSystem& fs, const std::vector<std::string>& paths, bool keep) {
  if (paths.empty()) return absl::InvalidArgumentError("a data set needs at least one file");
  std::shared_ptr<RecordIndex> index(new RecordIndex);
  for (const std::string& path : paths) {
    EV_ASSIGN_OR_RETURN(File file, OpenFile(fs, path, keep, &index->fingerprint_));
    index->first_.push_back(index->first_.back() + static_cast<int64_t>(file.offsets.size()) - 1);
    index->files_.push_back(std::move(file));
  }
  return std::shared_ptr<const RecordIndex>(std::move(index));
}

const RecordIndex::File& RecordIndex::Locate(int64_t record, int64_t* in_file) const {
  // The last file that starts at or before it; empty files share their start with the next one.
  const auto next = std::upper_bound(first_.begin(), first_.end() - 1, record);
  const auto file = static_cast<size_t>(next - first_.begin()) - 1;
  *in_file = record - first_[file];
  return files_[file];
}

absl::StatusOr<std::string_view> RecordIndex::Read(int64_t record, std::string* scratch) const {
  if (record < 0 || record >= size()) {
    return absl::InternalError(absl::StrCat("record ", record, " of ", size()));
  }
  int64_t i = 0;
  const File& file = Locate(record, &i);
  return ReadRecordAt(*file.file, file.path, file.offsets[i],
                      file.offsets[i + 1] - file.offsets[i] - kFrameBytes, scratch);
}

std::string RecordIndex::Describe(int64_t record) const {
  int64_t i = 0;
  const File& file = Locate(record, &i);
  return absl::StrCat(file.path, ": record ", i, " (at offset ", file.offsets[i], ")");
}

}  // namespace everstep
