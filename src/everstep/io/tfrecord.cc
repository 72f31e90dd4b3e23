// io: TFRecord files.
#include "everstep/io/tfrecord.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

namespace everstep {
namespace {

constexpr size_t kWriteBuffer = size_t{256} << 10;
constexpr int64_t kReadBuffer = int64_t{256} << 10;
constexpr int64_t kFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

absl::Status Corrupted(const std::string& path, int64_t offset, std::string_view why) {
  return absl::DataLossError(
      absl::StrCat(path, ": corrupted record at offset ", offset, " (", std::string(why), ")"));
}

absl::Status Truncated(const std::string& path, int64_t offset, int64_t have, int64_t want) {
  return absl::DataLossError(absl::StrCat(path, ": truncated record at offset ", offset, " (", want,
                                          " bytes expected, the file has ", have, ")"));
}

absl::Status BadLength(const std::string& path, int64_t offset) {
  std::string why = "its length checksum does not match";
  if (offset == 0) why += "; is this a TFRecord file?";
  return Corrupted(path, offset, why);
}

bool Matches(std::string_view bytes, const char* masked) {
  return MaskCrc32c(Crc32c(bytes)) == LoadLittle<uint32_t>(masked);
}

}  // namespace

void AppendRecord(std::string* out, std::string_view payload) {
  const size_t begin = out->size();
  AppendLittle<uint64_t>(out, payload.size());
  AppendLittle(out, MaskCrc32c(Crc32c(std::string_view(*out).substr(begin, 8))));
  out->append(payload);
  AppendLittle(out, MaskCrc32c(Crc32c(payload)));
}

absl::Status RecordWriter::Append(std::string_view payload) {
  AppendRecord(&buffer_, payload);
  ++records_;
  return buffer_.size() < kWriteBuffer ? absl::OkStatus() : Flush();
}

absl::Status RecordWriter::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  EV_RETURN_IF_ERROR(file_->Append(std::string_view(buffer_)));
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<RecordReader> RecordReader::Open(FileSystem& fs, const std::string& path) {
  EV_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, fs.OpenForReading(path));
  RecordReader reader(path, std::move(file));
  if (reader.file_->size() < 2) return reader;
  EV_RETURN_IF_ERROR(reader.Fill(std::min<int64_t>(reader.file_->size(), kRecordHeaderBytes)));
  const std::string_view start = reader.buffer_;
  const bool plain =
      reader.file_->size() >= kRecordHeaderBytes && Matches(start.substr(0, 8), start.data() + 8);
  const auto second = static_cast<uint8_t>(start[1]);
  const char* format = nullptr;
  if (start.substr(0, 2) == "\x1f\x8b") format = "gzip";
  if (start[0] == 'x' && (second == 0x01 || second == 0x9c || second == 0xda)) format = "zlib";
  if (plain || format == nullptr) return reader;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is compressed as a whole (", format,
                   "), which allows no random access; decompress it to a file first"));
}

absl::Status RecordReader::Fill(int64_t size) {
  const int64_t buffered_end = buffer_offset_ + static_cast<int64_t>(buffer_.size());
  if (offset_ >= buffer_offset_ && offset_ + size <= buffered_end) return absl::OkStatus();
  buffer_offset_ = offset_;
  buffer_.resize(std::min(std::max(size, kReadBuffer), file_->size() - offset_));
  return file_->ReadAt(offset_, AsWritableBytes(&buffer_));
}

absl::StatusOr<int64_t> RecordReader::Length() {
  const int64_t left = file_->size() - offset_;
  if (left == 0) return -1;
  if (left < kRecordHeaderBytes) return Truncated(path_, offset_, left, kFrameBytes);
  EV_RETURN_IF_ERROR(Fill(kRecordHeaderBytes));
  const char* header = At(offset_);
  if (!Matches({header, 8}, header + 8)) return BadLength(path_, offset_);
  const auto length = LoadLittle<uint64_t>(header);
  if (length > static_cast<uint64_t>(left) || static_cast<int64_t>(length) > left - kFrameBytes) {
    const bool sane = length < (uint64_t{1} << 62);
    return sane ? Truncated(path_, offset_, left, static_cast<int64_t>(length) + kFrameBytes)
                : Corrupted(path_, offset_, "it claims an impossible length");
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<bool> RecordReader::Next(std::string_view* payload) {
  EV_ASSIGN_OR_RETURN(const int64_t length, Length());
  if (length < 0) return false;
  EV_RETURN_IF_ERROR(Fill(length + kFrameBytes));
  *payload = {At(offset_ + kRecordHeaderBytes), static_cast<size_t>(length)};
  if (!Matches(*payload, payload->data() + length)) {
    return Corrupted(path_, offset_, "its data checksum does not match");
  }
  offset_ += length + kFrameBytes;
  return true;
}

absl::StatusOr<int64_t> RecordReader::SkipNext() {
  EV_ASSIGN_OR_RETURN(const int64_t length, Length());
  if (length >= 0) offset_ += length + kFrameBytes;
  return length;
}

absl::StatusOr<std::string_view> ReadRecordAt(const RandomAccessFile& file, const std::string& path,
                                              int64_t offset, int64_t length,
                                              std::string* scratch) {
  if (offset > file.size() - kFrameBytes - length) {
    return Truncated(path, offset, std::max<int64_t>(file.size() - offset, 0),
                     length + kFrameBytes);
  }
  scratch->resize(static_cast<size_t>(length + kFrameBytes));
  EV_RETURN_IF_ERROR(file.ReadAt(offset, AsWritableBytes(scratch)));
  const char* header = scratch->data();
  if (!Matches({header, 8}, header + 8)) return BadLength(path, offset);
  if (LoadLittle<uint64_t>(header) != static_cast<uint64_t>(length)) {
    return Corrupted(path, offset, "its length is not the one indexed; has the file changed?");
  }
  const std::string_view payload(header + kRecordHeaderBytes, static_cast<size_t>(length));
  if (!Matches(payload, payload.data() + length)) {
    return Corrupted(path, offset, "its data checksum does not match");
  }
  return payload;
}

}  // namespace everstep
