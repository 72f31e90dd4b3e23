// collective: votes as they go over links, and what follows from all of them.
#pragma once

#include <array>
#include <cstddef>

#include "absl/types/span.h"
#include "everstep/collective/cells.h"
#include "everstep/collective/communicator.h"

namespace everstep {

constexpr size_t kVoteBytes = 56;

VoteRecord RecordOf(Round round, const Vote& vote, uint64_t buckets_hash);
std::array<std::byte, kVoteBytes> EncodeVote(const VoteRecord& record);
VoteRecord DecodeVote(absl::Span<const std::byte> bytes);  // kVoteBytes of them

// Of at least one vote.
Verdict VerdictOf(absl::Span<const VoteRecord> votes);

}  // namespace everstep
