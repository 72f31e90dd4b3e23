// tests: tables in LevelDB's format, right or wrong as wished, for the mutations to start from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace everstep::fuzz {

using Entries = std::vector<std::pair<std::string, std::string>>;  // keys and values, as given

// Builds a table; every checksum in it is right. Nothing else is: keys may fall, handles may point
// anywhere.
class TableBytes {
 public:
  // Appends a block of these entries; a key shares what it can with the one before it, but every
  // `restart` entries. Its handle.
  std::pair<uint64_t, uint64_t> AddBlock(const Entries& entries, int restart);
  // Appends a block of these contents.
  std::pair<uint64_t, uint64_t> AddRaw(std::string_view contents);
  // The whole table: blocks so far, then an index block of these handles.
  std::string Finish(const std::vector<std::pair<uint64_t, uint64_t>>& handles);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Entries in blocks of `per_block`.
std::string BuildTable(const Entries& entries, size_t per_block, int restart);

// Computes anew, in place, the checksums of all blocks of `table` that its handles lead to, as far
// as they can be followed.
void Reseal(std::string* table);

}  // namespace everstep::fuzz
