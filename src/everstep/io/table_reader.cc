// io: LevelDB-format tables: data blocks, a metaindex block, an index block of (separator key ->
// place of a data block), a 48-byte footer with the places of the last two.
#include "everstep/io/table_reader.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

namespace everstep {
namespace {

constexpr size_t kFooterBytes = 48;
constexpr size_t kTrailerBytes = 5;  // type, masked CRC of block and type
// Writers store every 16th key whole, so all keys together are at most 16 times what they take in
// the file. Were keys to share without end, N bytes could say N * N of them.
constexpr uint64_t kRestartInterval = 16;
constexpr uint64_t kMagic = 0xdb4775248b80fb57ull;

using OnEntry = absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)>;

class Table {
 public:
  Table(std::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  absl::Status ForEach(OnEntry on) const {
    if (bytes_.size() < kFooterBytes) return Damaged("it is too short for a table");
    std::string_view footer = bytes_.substr(bytes_.size() - kFooterBytes);
    if (LoadLittle<uint64_t>(footer.data() + 40) != kMagic) {
      return Damaged("it does not end like a table; is it truncated?");
    }
    footer.remove_suffix(8);
    std::string_view metaindex, index;
    EV_RETURN_IF_ERROR(TakeBlock(&footer, &metaindex));
    EV_RETURN_IF_ERROR(TakeBlock(&footer, &index));
    if (footer.find_first_not_of('\0') != std::string_view::npos) return Damaged("bad footer");

    bool first = true;
    std::string last;
    const char* next = bytes_.data();
    uint64_t key_bytes = 0;
    return ForEachInBlock(index, [&](std::string_view, std::string_view handle) -> absl::Status {
      std::string_view block;
      EV_RETURN_IF_ERROR(TakeBlock(&handle, &block));
      // Else one large block, named often, takes time without end.
      if (block.data() < next) return Damaged("its blocks overlap");
      next = block.data() + block.size() + kTrailerBytes;
      return ForEachInBlock(block, [&](std::string_view key, std::string_view value) {
        if (!first && key <= last) return Damaged("its keys are out of order");
        key_bytes += key.size();
        if (key_bytes > kRestartInterval * bytes_.size()) return Damaged("its keys are too long");
        first = false;
        last.assign(key);
        return on(key, value);
      });
    });
  }

 private:
  absl::Status Damaged(std::string_view why) const {
    return absl::DataLossError(absl::StrCat(what_, ": damaged index (", std::string(why), ")"));
  }

  // Takes a handle off the front of `*in`: the contents of the block it points to, checked.
  absl::Status TakeBlock(std::string_view* in, std::string_view* block) const {
    uint64_t offset = 0, size = 0;
    const std::string_view handle = *in;
    if (!TakeVarint(in, &offset) || !TakeVarint(in, &size)) return Damaged("bad block handle");
    // No checksum covers the footer. The shortest form is the only one a writer writes, so with
    // this every bit of it counts.
    std::string shortest;
    AppendVarint(&shortest, offset);
    AppendVarint(&shortest, size);
    if (handle.substr(0, handle.size() - in->size()) != shortest)
      return Damaged("bad block handle");
    const uint64_t end = bytes_.size() - kFooterBytes;
    if (offset > end || size > end - offset || end - offset - size < kTrailerBytes) {
      return Damaged("a block lies outside the file");
    }
    const std::string_view covered = bytes_.substr(offset, size + 1);
    if (MaskCrc32c(Crc32c(covered)) != LoadLittle<uint32_t>(covered.data() + covered.size())) {
      return Damaged(
          absl::StrCat("the checksum of the block at offset ", offset, " does not match"));
    }
    if (covered.back() != 0) {
      return absl::UnimplementedError(
          absl::StrCat(what_, ": the index is compressed; write it without compression"));
    }
    *block = covered.substr(0, size);
    return absl::OkStatus();
  }

  // Entries: varint shared, unshared, value length, key tail, value. Then restart offsets and
  // their count, which only a search needs.
  absl::Status ForEachInBlock(std::string_view block, OnEntry on) const {
    if (block.size() < 4) return Damaged("a block is too short");
    const uint64_t restarts = LoadLittle<uint32_t>(block.data() + block.size() - 4);
    if (restarts > (block.size() - 4) / 4) return Damaged("a block's restarts do not fit");
    block.remove_suffix(4 + 4 * restarts);
    std::string key;
    while (!block.empty()) {
      uint64_t shared = 0, unshared = 0, length = 0;
      if (!TakeVarint(&block, &shared) || !TakeVarint(&block, &unshared) ||
          !TakeVarint(&block, &length) || shared > key.size() || unshared > block.size() ||
          length > block.size() - unshared) {
        return Damaged("an entry does not fit its block");
      }
      key.resize(shared);
      key.append(block.substr(0, unshared));
      EV_RETURN_IF_ERROR(on(key, block.substr(unshared, length)));
      block.remove_prefix(unshared + length);
    }
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  const std::string& what_;
};

}  // namespace

absl::Status ForEachTableEntry(std::string_view bytes, const std::string& what, OnEntry on) {
  return Table(bytes, what).ForEach(on);
}

}  // namespace everstep
