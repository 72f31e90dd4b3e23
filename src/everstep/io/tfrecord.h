// io: TFRecord files. A record is
//   uint64 length, uint32 masked CRC of those 8 bytes, the payload, uint32 masked CRC of the
//   payload
// little-endian, with no header or footer of the file: an empty file is an empty data set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

constexpr int64_t kRecordHeaderBytes = 12;
constexpr int64_t kRecordFooterBytes = 4;

// The bytes of one whole record.
void AppendRecord(std::string* out, std::string_view payload);

// Collects records and hands them to the file whole, many at a time. One thread. What was not
// flushed is lost with the writer.
class RecordWriter {
 public:
  explicit RecordWriter(WritableFile* file) : file_(file) {}  // not owned; outlives this

  absl::Status Append(std::string_view payload);
  // One Append to the file, if there is anything. Does not sync.
  absl::Status Flush();
  int64_t records() const { return records_; }

 private:
  WritableFile* const file_;
  std::string buffer_;
  int64_t records_ = 0;
};

// Errors of all readers: kDataLoss "PATH: truncated record at offset N (...)" or "PATH: corrupted
// record at offset N (...)", N being where the record's header starts; what the file itself says.

// Reads a file from its start. One thread. Every CRC is checked.
class RecordReader {
 public:
  // Refuses, by name of the format, a file that is compressed as a whole.
  static absl::StatusOr<RecordReader> Open(FileSystem& fs, const std::string& path);

  // The next payload; false at the end. It stays valid until the next call.
  absl::StatusOr<bool> Next(std::string_view* payload);
  // The length of the next payload, which is stepped over unread; -1 at the end.
  absl::StatusOr<int64_t> SkipNext();

  int64_t offset() const { return offset_; }  // of the next record
  const std::string& path() const { return path_; }
  const RandomAccessFile& file() const { return *file_; }

 private:
  RecordReader(std::string path, std::unique_ptr<RandomAccessFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  // Makes [offset_, offset_ + size) lie in the buffer; it is known to be inside the file.
  absl::Status Fill(int64_t size);
  const char* At(int64_t offset) const { return buffer_.data() + (offset - buffer_offset_); }
  // The length of the record at offset_, -1 at the end.
  absl::StatusOr<int64_t> Length();

  std::string path_;
  std::unique_ptr<RandomAccessFile> file_;
  int64_t offset_ = 0;
  std::string buffer_;
  int64_t buffer_offset_ = 0;
};

// Reads into `*scratch` the record at `offset`, whose payload has `length` bytes as an index says,
// and checks its header and CRCs. The payload lies in `*scratch`. Any thread.
absl::StatusOr<std::string_view> ReadRecordAt(const RandomAccessFile& file, const std::string& path,
                                              int64_t offset, int64_t length, std::string* scratch);

}  // namespace everstep
