// io: bundle writer; the index by LevelDB's table builder.
#include "everstep/io/bundle_writer.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "everstep/base/status.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

namespace everstep {
namespace {

constexpr int32_t kStringDType = 7;

// Collects what the table builder writes.
class StringFile : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

leveldb::Options TableOptions() {
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  options.block_size = 262144;  // as TensorFlow's
  options.block_restart_interval = 16;
  return options;
}

absl::StatusOr<std::string> BuildIndex(const std::map<std::string, std::string>& entries) {
  format::BundleHeaderProto header;
  header.set_num_shards(1);
  header.mutable_version()->set_producer(1);
  StringFile file;
  leveldb::TableBuilder builder(TableOptions(), &file);
  builder.Add("", header.SerializeAsString());
  for (const auto& [name, entry] : entries) builder.Add(name, entry);
  const leveldb::Status status = builder.Finish();
  if (!status.ok()) return absl::InternalError("building a bundle index: " + status.ToString());
  return file.bytes();
}

}  // namespace

std::string BundleDataPath(const std::string& prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

BundleWriter::BundleWriter(FileSystem& fs, std::string prefix, std::unique_ptr<WritableFile> data)
    : fs_(fs), prefix_(std::move(prefix)), data_(std::move(data)) {}

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Open(FileSystem& fs,
                                                                 const std::string& prefix) {
  EV_ASSIGN_OR_RETURN(
      std::unique_ptr<WritableFile> data,
      fs.OpenForWriting(BundleDataPath(prefix, 0, 1), FileSystem::Create::kTruncate));
  return std::unique_ptr<BundleWriter>(new BundleWriter(fs, prefix, std::move(data)));
}

absl::Status BundleWriter::AddEntry(std::string_view name, int32_t dtype,
                                    absl::Span<const int64_t> shape, int64_t size,
                                    uint32_t masked_crc) {
  format::BundleEntryProto entry;
  entry.set_dtype(dtype);
  auto* shape_proto = entry.mutable_shape();  // there even for a scalar
  for (int64_t dim : shape) shape_proto->add_dim()->set_size(dim);
  entry.set_offset(offset_);
  entry.set_size(size);
  entry.set_crc32c(masked_crc);
  entries_.emplace(std::string(name), entry.SerializeAsString());
  offset_ += size;
  return absl::OkStatus();
}

absl::Status BundleWriter::Add(const TensorSpan& tensor) {
  if (tensor.name.empty() || tensor.num_elements() < 0) {
    return absl::InvalidArgumentError(absl::StrFormat("cannot save tensor \"%s\" of shape %s",
                                                      tensor.name, ShapeToString(tensor.shape)));
  }
  if (entries_.count(tensor.name) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("two tensors of the state are called \"%s\"", tensor.name));
  }
  EV_RETURN_IF_ERROR(data_->Append(tensor.bytes()));
  return AddEntry(tensor.name, static_cast<int32_t>(tensor.dtype), tensor.shape, tensor.num_bytes(),
                  MaskCrc32c(Crc32c(tensor.bytes())));
}

absl::Status BundleWriter::AddString(std::string_view name, std::string_view value) {
  if (name.empty() || entries_.count(std::string(name)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot save string \"%s\": no name or a second one", std::string(name)));
  }
  if (value.size() > UINT32_MAX) return absl::InvalidArgumentError("string over 4 GiB");
  // varint length, masked CRC of the length as 32 bits, bytes. The entry's CRC covers the 32-bit
  // length, not the varint.
  std::string length, stored;
  AppendLittle(&length, static_cast<uint32_t>(value.size()));
  AppendVarint(&stored, value.size());
  AppendLittle(&stored, MaskCrc32c(Crc32c(length)));
  uint32_t crc = ExtendCrc32c(Crc32c(length), AsBytes(stored).last(4));
  crc = ExtendCrc32c(crc, AsBytes(value));
  stored.append(value);
  EV_RETURN_IF_ERROR(data_->Append(std::string_view(stored)));
  return AddEntry(name, kStringDType, {}, static_cast<int64_t>(stored.size()), MaskCrc32c(crc));
}

absl::Status BundleWriter::Finish() {
  EV_RETURN_IF_ERROR(data_->Sync());
  EV_RETURN_IF_ERROR(data_->Close());
  EV_ASSIGN_OR_RETURN(const std::string index, BuildIndex(entries_));
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                      fs_.OpenForWriting(prefix_ + ".index", FileSystem::Create::kTruncate));
  EV_RETURN_IF_ERROR(file->Append(std::string_view(index)));
  EV_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace everstep
