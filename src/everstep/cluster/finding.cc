// cluster: Finding.
#include "everstep/cluster/finding.h"

#include "absl/strings/str_cat.h"

namespace everstep {

std::string Finding::ToString() const {
  const bool inside = line > 0 && where != "TF_CONFIG";
  return absl::StrCat(code, ": ", inside ? "TF_CONFIG, " : "", where,
                      line > 0 ? absl::StrCat(" (line ", line, ", column ", column, ")") : "", ": ",
                      what, cure.empty() ? "" : "; ", cure);
}

}  // namespace everstep
