// cluster: findings as they are collected.
#include "everstep/cluster/tf_config_findings.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/finding_codes.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr size_t kMaxFindings = 100;
constexpr size_t kMaxPlainName = 32;

}  // namespace

void FindingList::Put(std::string_view code, std::string where, size_t offset, std::string what,
                      std::string cure) {
  const FindingCode* known = FindCode(code);
  const bool error = known == nullptr || known->error;
  has_errors_ = has_errors_ || error;
  if (found_.size() >= kMaxFindings) {
    ++left_out_;
    return;
  }
  Finding finding;
  finding.code = std::string(code);
  finding.error = error;
  finding.where = std::move(where);
  finding.what = std::move(what);
  finding.cure = std::move(cure);
  found_.push_back({std::move(finding), offset});
}

void FindingList::Add(std::string_view code, std::string where, size_t offset, std::string what,
                      std::string cure) {
  Put(code, std::move(where), std::min(offset, text_.size()), std::move(what), std::move(cure));
}

void FindingList::AddOutside(std::string_view code, std::string where, std::string what,
                             std::string cure) {
  Put(code, std::move(where), std::string_view::npos, std::move(what), std::move(cure));
}

std::vector<Finding> FindingList::Take() {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  std::vector<Finding> result;
  int line = 1;
  size_t at = 0, begin = 0;  // `begin`: of the line
  for (Placed& placed : found_) {
    if (placed.offset != std::string_view::npos) {
      for (; at < placed.offset; ++at) {
        if (text_[at] != '\n') continue;
        ++line;
        begin = at + 1;
      }
      placed.finding.line = line;
      placed.finding.column = static_cast<int>(at - begin) + 1;
    }
    result.push_back(std::move(placed.finding));
  }
  if (left_out_ > 0) {
    Finding more;
    more.code = "EV118";
    more.error = true;
    more.where = "TF_CONFIG";
    more.line = more.column = 1;
    more.what = absl::StrCat(left_out_, " more findings are left out");
    more.cure = "look at what wrote it";
    has_errors_ = true;
    result.push_back(std::move(more));
  }
  return result;
}

namespace {

// As it is in a path where it needs no quotes.
std::string ShortPart(std::string_view key) {
  const std::string shown = Shown(key);
  const bool plain = !key.empty() && shown == absl::StrCat("'", ToAbsl(key), "'") &&
                     std::all_of(key.begin(), key.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '-';
                     });
  return plain ? std::string(key) : shown;
}

}  // namespace

std::string PathPart(std::string_view key, bool harmless) {
  const bool plain = !key.empty() && key.size() <= kMaxPlainName &&
                     std::all_of(key.begin(), key.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '-';
                     });
  return plain && (harmless || IsKnownName(key)) ? std::string(key) : ShortPart(key);
}

}  // namespace everstep
