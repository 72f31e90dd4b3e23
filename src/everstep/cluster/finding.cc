// cluster: Finding.
#include "everstep/cluster/finding.h"

#include "absl/strings/str_cat.h"

namespace everstep {

std::string Finding::ToString(const std::string& source) const {
  const bool whole = where == "TF_CONFIG", inside = line > 0 && !whole;
  return absl::StrCat(code, ": ", inside ? source + ", " : "", whole ? source : where,
                      line > 0 ? absl::StrCat(" (line ", line, ", column ", column, ")") : "", ": ",
                      what, cure.empty() ? "" : "; ", cure);
}

}  // namespace everstep
