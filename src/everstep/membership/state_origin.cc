// membership: which state the members of a view begin with.
#include "everstep/membership/state_origin.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace everstep {
namespace {

std::pair<History, Step> PlaceOf(const Hello& hello) { return {hello.history, hello.step}; }

}  // namespace

bool Holds(const Hello& hello, const StateOrigin& origin) {
  return std::tie(hello.history, hello.step, hello.digest) ==
         std::tie(origin.history, origin.step, origin.digest);
}

std::optional<StateOrigin> ChooseOrigin(const std::vector<const Hello*>& by_rank) {
  std::pair<History, Step> furthest = PlaceOf(*by_rank.front());
  for (const Hello* hello : by_rank) furthest = std::max(furthest, PlaceOf(*hello));
  std::map<uint64_t, size_t> votes;
  size_t voters = 0;
  for (const Hello* hello : by_rank) {
    if (PlaceOf(*hello) != furthest) continue;
    ++votes[hello->digest];
    ++voters;
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second * 2 <= voters) return std::nullopt;

  StateOrigin origin{furthest.first, furthest.second, most->first, /*donor=*/-1};
  auto holds = [&](const Hello* hello) { return Holds(*hello, origin); };
  if (!std::all_of(by_rank.begin(), by_rank.end(), holds)) {
    const auto first = std::find_if(by_rank.begin(), by_rank.end(), holds);
    origin.donor = static_cast<int>(first - by_rank.begin());
  }
  return origin;
}

}  // namespace everstep
