// io: writes a TensorFlow V2 checkpoint, a "bundle": PREFIX.data-00001-of-00004 and so on with the
// tensors' bytes, PREFIX.index with a table of their names, types, shapes, places and CRCs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/env/file.h"

namespace everstep {

// Add everything, in any order, then write the files: each is a pure function of what was added and
// of the number of shards, so several processes that hold equal tensors can each write some. The
// index is to be the last: a bundle without one is an unfinished one. One thread.
//
// Whole tensors lie in the shards, in key order, such that shards are as near equal in bytes as
// whole tensors allow; a shard may be empty.
class BundleWriter {
 public:
  BundleWriter(FileSystem& fs, std::string prefix);  // touches nothing yet

  // The tensor's memory is read by the writing below. kInvalidArgument: an empty name, a name added
  // before, a negative shape.
  absl::Status Add(const TensorSpan& tensor);
  // A scalar of TensorFlow's string type; the text is copied.
  absl::Status AddString(std::string_view name, std::string_view value);
  absl::Status AddInt64(std::string_view name, int64_t value);  // a scalar, copied

  // `num_shards` 1 to 99999. The sizes that the data files have.
  std::vector<int64_t> ShardSizes(int num_shards) const;
  // Where `name`, which was added, lies.
  int ShardOf(std::string_view name, int num_shards) const;

  // Each replaces a file of that name and syncs it. The directory is the caller's to sync.
  absl::Status WriteShard(int shard, int num_shards) const;
  // The CRCs in it are those of the memory here, not of what data files hold.
  absl::Status WriteIndex(int num_shards) const;

 private:
  struct Item {
    int32_t dtype = 0;
    std::vector<int64_t> shape;
    absl::Span<const std::byte> bytes;  // of a tensor
    std::string copy;                   // of anything else: its bytes as they are stored
    uint32_t string_crc = 0;            // of a string: of what the format says, not of `copy`

    absl::Span<const std::byte> stored() const;
    uint32_t Crc() const;
  };
  struct Place {
    int shard = 0;
    int64_t offset = 0;
  };

  absl::Status AddItem(std::string_view name, Item item);
  std::vector<Place> Places(int num_shards) const;  // in the order of items_
  absl::Status CheckShard(int shard, int num_shards) const;

  FileSystem& fs_;
  const std::string prefix_;
  std::map<std::string, Item, std::less<>> items_;  // in the order of the index
};

// PREFIX.data-00001-of-00004
std::string BundleDataPath(const std::string& prefix, int shard, int num_shards);
std::string BundleIndexPath(const std::string& prefix);

}  // namespace everstep
