// tests: tables as byte strings.
#include "table_bytes.h"

#include <algorithm>
#include <cstring>

#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"

namespace everstep::fuzz {
namespace {

constexpr size_t kFooterBytes = 48;

void AppendHandle(std::string* out, std::pair<uint64_t, uint64_t> handle) {
  AppendVarint(out, handle.first);
  AppendVarint(out, handle.second);
}

bool TakeHandle(std::string_view* in, std::pair<uint64_t, uint64_t>* handle) {
  return TakeVarint(in, &handle->first) && TakeVarint(in, &handle->second);
}

// Whether the block lies inside; if so it has its right checksum after.
bool Seal(std::string* table, std::pair<uint64_t, uint64_t> handle) {
  const auto [offset, size] = handle;
  if (offset > table->size() || size > table->size() - offset ||
      table->size() - offset - size < 5) {
    return false;
  }
  const uint32_t crc =
      MaskCrc32c(Crc32c(std::string_view(*table).substr(offset, static_cast<size_t>(size) + 1)));
  std::memcpy(table->data() + offset + size + 1, &crc, sizeof crc);
  return true;
}

}  // namespace

std::pair<uint64_t, uint64_t> TableBytes::AddRaw(std::string_view contents) {
  const std::pair<uint64_t, uint64_t> handle = {bytes_.size(), contents.size()};
  bytes_ += contents;
  bytes_.append(5, '\0');
  Seal(&bytes_, handle);
  return handle;
}

std::pair<uint64_t, uint64_t> TableBytes::AddBlock(const Entries& entries, int restart) {
  std::string block;
  std::vector<uint32_t> restarts;
  std::string last;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    size_t shared = 0;
    if (i % static_cast<size_t>(restart) == 0) {
      restarts.push_back(static_cast<uint32_t>(block.size()));
    } else {
      shared = static_cast<size_t>(
          std::mismatch(key.begin(), key.begin() + std::min(key.size(), last.size()), last.begin())
              .first -
          key.begin());
    }
    AppendVarint(&block, shared);
    AppendVarint(&block, key.size() - shared);
    AppendVarint(&block, value.size());
    block.append(key, shared, std::string::npos);
    block += value;
    last = key;
  }
  if (restarts.empty()) restarts.push_back(0);
  for (uint32_t at : restarts) AppendLittle(&block, at);
  AppendLittle(&block, static_cast<uint32_t>(restarts.size()));
  return AddRaw(block);
}

std::string TableBytes::Finish(const std::vector<std::pair<uint64_t, uint64_t>>& handles) {
  Entries index;
  for (size_t i = 0; i < handles.size(); ++i) {
    std::string handle, key;
    AppendHandle(&handle, handles[i]);
    for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(i >> shift));
    index.emplace_back(key, handle);
  }
  std::string footer;
  AppendHandle(&footer, AddBlock({}, 1));
  AppendHandle(&footer, AddBlock(index, 1));
  footer.resize(kFooterBytes - 8);
  AppendLittle<uint64_t>(&footer, 0xdb4775248b80fb57ull);
  return bytes_ + footer;
}

std::string BuildTable(const Entries& entries, size_t per_block, int restart) {
  TableBytes table;
  std::vector<std::pair<uint64_t, uint64_t>> handles;
  for (size_t i = 0; i < entries.size(); i += per_block) {
    const auto end =
        entries.begin() + static_cast<ptrdiff_t>(std::min(i + per_block, entries.size()));
    handles.push_back(
        table.AddBlock(Entries(entries.begin() + static_cast<ptrdiff_t>(i), end), restart));
  }
  return table.Finish(handles);
}

void Reseal(std::string* table) {
  if (table->size() < kFooterBytes) return;
  std::string_view footer = std::string_view(*table).substr(table->size() - kFooterBytes);
  std::pair<uint64_t, uint64_t> meta, index;
  if (!TakeHandle(&footer, &meta) || !TakeHandle(&footer, &index)) return;
  Seal(table, meta);
  if (!Seal(table, index)) return;
  // The data blocks first would be in vain: sealing one that overlaps the index changes the index.
  const std::string block = table->substr(index.first, index.second);
  std::string_view rest = block;
  for (uint64_t shared = 0, unshared = 0, length = 0; !rest.empty();) {
    if (!TakeVarint(&rest, &shared) || !TakeVarint(&rest, &unshared) ||
        !TakeVarint(&rest, &length) || unshared > rest.size() || length > rest.size() - unshared) {
      break;
    }
    std::string_view value = rest.substr(unshared, length);
    std::pair<uint64_t, uint64_t> data;
    if (TakeHandle(&value, &data)) Seal(table, data);
    rest.remove_prefix(unshared + length);
  }
  Seal(table, index);
}

}  // namespace everstep::fuzz
