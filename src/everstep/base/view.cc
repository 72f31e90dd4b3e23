// base: View.
#include "everstep/base/view.h"

#include "absl/strings/str_cat.h"

namespace everstep {

std::string ViewId::ToString() const { return absl::StrCat(term, ".", id); }

int View::RankOf(Incarnation incarnation) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].incarnation == incarnation) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace everstep
