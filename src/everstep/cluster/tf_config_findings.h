// cluster: findings in a text as they are collected, before they have lines and columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "everstep/cluster/finding.h"

namespace everstep {

class FindingList {
 public:
  explicit FindingList(std::string_view text) : text_(text) {}

  // `code` is one of FindingCodes(). After the first kMaxFindings the others are only counted.
  void Add(std::string_view code, std::string where, size_t offset, std::string what,
           std::string cure);
  // Of something that has no place in the text.
  void AddOutside(std::string_view code, std::string where, std::string what, std::string cure);

  bool has_errors() const { return has_errors_; }

  // In the order of their places, those outside last.
  std::vector<Finding> Take();

 private:
  struct Placed {
    Finding finding;
    size_t offset;  // of the text; npos: outside
  };
  void Put(std::string_view code, std::string where, size_t offset, std::string what,
           std::string cure);

  const std::string_view text_;
  std::vector<Placed> found_;
  size_t left_out_ = 0;
  bool has_errors_ = false;
};

// A key as a part of a path: as it is when it is a known name, or a plain one that the caller knows
// to be `harmless`; else as Shown() has it, for people write secrets as keys, too.
std::string PathPart(std::string_view key, bool harmless = false);

}  // namespace everstep
