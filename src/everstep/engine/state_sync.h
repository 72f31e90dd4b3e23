// engine: state sync: all members of a linked view get the state of one of them. The bytes travel
// by the reduction itself: a float carries 16 of their bits as a whole number, the donor gives
// them, everybody else gives +0, and a sum of that kind is exact.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/collective/communicator.h"
#include "everstep/learner/learner.h"

namespace everstep {

// Called by every member, with equal `donor` (a rank), `round` and sizes. Fills `out`, as long as
// `own`, with the donor's `own`; the two must not overlap. Uses rounds from *round on and leaves it
// at the next free one. Errors as Communicator's; `out` is then undefined.
absl::Status SyncState(Communicator& communicator, const StateLayout& layout, int donor,
                       absl::Span<const std::byte> own, absl::Span<std::byte> out, Round* round,
                       Deadline deadline);

}  // namespace everstep
