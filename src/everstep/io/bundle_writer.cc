// io: bundle writer; the index by LevelDB's table builder.
#include "everstep/io/bundle_writer.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "everstep/base/status.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

namespace everstep {
namespace {

constexpr int32_t kStringDType = 7;
constexpr int kMaxShards = 99999;  // five digits in the names

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

std::string EncodeEntry(int32_t dtype, absl::Span<const int64_t> shape, int shard, int64_t offset,
                        int64_t size, uint32_t crc) {
  format::BundleEntryProto entry;
  entry.set_dtype(dtype);
  auto* shape_proto = entry.mutable_shape();  // there even for a scalar
  for (int64_t dim : shape) shape_proto->add_dim()->set_size(dim);
  entry.set_shard_id(shard);
  entry.set_offset(offset);
  entry.set_size(size);
  entry.set_crc32c(MaskCrc32c(crc));
  return entry.SerializeAsString();
}

absl::Status WriteFile(FileSystem& fs, const std::string& path,
                       absl::FunctionRef<absl::Status(WritableFile*)> fill) {
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                      fs.OpenForWriting(path, FileSystem::Create::kTruncate));
  EV_RETURN_IF_ERROR(fill(file.get()));
  EV_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

std::string BundleDataPath(const std::string& prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

std::string BundleIndexPath(const std::string& prefix) { return prefix + ".index"; }

absl::Span<const std::byte> BundleWriter::Item::stored() const {
  return copy.empty() ? bytes : AsBytes(copy);
}

uint32_t BundleWriter::Item::Crc() const {
  return dtype == kStringDType ? string_crc : Crc32c(stored());
}

BundleWriter::BundleWriter(FileSystem& fs, std::string prefix)
    : fs_(fs), prefix_(std::move(prefix)) {}

absl::Status BundleWriter::AddItem(std::string_view name, Item item) {
  if (name.empty()) return absl::InvalidArgumentError("cannot save a tensor that has no name");
  if (!items_.emplace(std::string(name), std::move(item)).second) {
    return absl::InvalidArgumentError(
        absl::StrFormat("two tensors of the state are called \"%s\"", std::string(name)));
  }
  return absl::OkStatus();
}

absl::Status BundleWriter::Add(const TensorSpan& tensor) {
  if (tensor.num_elements() < 0) {
    return absl::InvalidArgumentError(absl::StrFormat("cannot save tensor \"%s\" of shape %s",
                                                      tensor.name, ShapeToString(tensor.shape)));
  }
  Item item;
  item.dtype = static_cast<int32_t>(tensor.dtype);
  item.shape = tensor.shape;
  item.bytes = tensor.bytes();
  return AddItem(tensor.name, std::move(item));
}

absl::Status BundleWriter::AddString(std::string_view name, std::string_view value) {
  if (value.size() > UINT32_MAX) return absl::InvalidArgumentError("string over 4 GiB");
  // varint length, masked CRC of the length as 32 bits, bytes. The entry's CRC covers the 32-bit
  // length, not the varint.
  Item item;
  item.dtype = kStringDType;
  std::string length;
  AppendLittle(&length, static_cast<uint32_t>(value.size()));
  AppendVarint(&item.copy, value.size());
  AppendLittle(&item.copy, MaskCrc32c(Crc32c(length)));
  item.string_crc = ExtendCrc32c(Crc32c(length), AsBytes(item.copy).last(4));
  item.string_crc = ExtendCrc32c(item.string_crc, AsBytes(value));
  item.copy.append(value);
  return AddItem(name, std::move(item));
}

absl::Status BundleWriter::AddInt64(std::string_view name, int64_t value) {
  Item item;
  item.dtype = static_cast<int32_t>(DType::kInt64);
  AppendLittle(&item.copy, value);
  return AddItem(name, std::move(item));
}

std::vector<BundleWriter::Place> BundleWriter::Places(int num_shards) const {
  int64_t total = 0;
  for (const auto& [name, item] : items_) total += static_cast<int64_t>(item.stored().size());
  std::vector<Place> places;
  std::vector<int64_t> ends(static_cast<size_t>(num_shards));
  int64_t begin = 0;
  for (const auto& [name, item] : items_) {
    // A tensor goes where its middle falls when all bytes are cut in equal pieces: shards never go
    // back along the order, and none is over by more than the half of a tensor at either end.
    const auto size = static_cast<int64_t>(item.stored().size());
    int shard = 0;
    if (total > 0) {
      const auto middle = static_cast<unsigned __int128>(begin) * 2 + size;
      shard = static_cast<int>(middle * num_shards / (static_cast<unsigned __int128>(total) * 2));
    }
    shard = std::min(shard, num_shards - 1);
    places.push_back({shard, ends[shard]});
    ends[shard] += size;
    begin += size;
  }
  return places;
}

std::vector<int64_t> BundleWriter::ShardSizes(int num_shards) const {
  std::vector<int64_t> sizes(static_cast<size_t>(num_shards));
  const std::vector<Place> places = Places(num_shards);
  auto place = places.begin();
  for (const auto& [name, item] : items_) {
    sizes[place->shard] += static_cast<int64_t>(item.stored().size());
    ++place;
  }
  return sizes;
}

int BundleWriter::ShardOf(std::string_view name, int num_shards) const {
  const auto index = std::distance(items_.begin(), items_.find(name));
  return Places(num_shards)[static_cast<size_t>(index)].shard;
}

absl::Status BundleWriter::CheckShard(int shard, int num_shards) const {
  if (num_shards >= 1 && num_shards <= kMaxShards && shard >= 0 && shard < num_shards) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: there is no shard %d of %d", prefix_, shard, num_shards));
}

absl::Status BundleWriter::WriteShard(int shard, int num_shards) const {
  EV_RETURN_IF_ERROR(CheckShard(shard, num_shards));
  const std::vector<Place> places = Places(num_shards);
  return WriteFile(fs_, BundleDataPath(prefix_, shard, num_shards), [&](WritableFile* file) {
    auto place = places.begin();
    for (const auto& [name, item] : items_) {
      if ((place++)->shard == shard) EV_RETURN_IF_ERROR(file->Append(item.stored()));
    }
    return absl::OkStatus();
  });
}

absl::Status BundleWriter::WriteIndex(int num_shards) const {
  EV_RETURN_IF_ERROR(CheckShard(0, num_shards));
  format::BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(1);
  StringFile table;
  leveldb::TableBuilder builder(TableOptions(), &table);
  builder.Add("", header.SerializeAsString());
  const std::vector<Place> places = Places(num_shards);
  auto place = places.begin();
  for (const auto& [name, item] : items_) {
    builder.Add(name, EncodeEntry(item.dtype, item.shape, place->shard, place->offset,
                                  static_cast<int64_t>(item.stored().size()), item.Crc()));
    ++place;
  }
  const leveldb::Status status = builder.Finish();
  if (!status.ok()) return absl::InternalError("building a bundle index: " + status.ToString());
  return WriteFile(fs_, BundleIndexPath(prefix_), [&](WritableFile* file) {
    return file->Append(std::string_view(table.bytes()));
  });
}

}  // namespace everstep
