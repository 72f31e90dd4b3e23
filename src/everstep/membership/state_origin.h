// membership: which state the members of a view begin with. Pure.
#pragma once

#include <optional>
#include <vector>

#include "everstep/membership/messages.h"

namespace everstep {

// `by_rank`: what each member said in its hello, at least one, in the order of the view. The state
// is the one that is furthest, by history and then by step; of those who are there, the digest of
// more than half. Nullopt: none has more than half, so nobody can say whose state is right.
std::optional<StateOrigin> ChooseOrigin(const std::vector<const Hello*>& by_rank);

// Whether `hello` says that its process holds the state of `origin`.
bool Holds(const Hello& hello, const StateOrigin& origin);

}  // namespace everstep
