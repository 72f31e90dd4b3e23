// collective: votes.
#include "everstep/collective/vote_codec.h"

#include <algorithm>

#include "everstep/collective/frame.h"

namespace everstep {

VoteRecord RecordOf(Round round, const Vote& vote, uint64_t buckets_hash) {
  VoteRecord record;
  record.round = round;
  record.step = vote.step;
  record.prepared_term = vote.prepared.term;
  record.prepared_id = vote.prepared.id;
  record.digest = vote.digest;
  record.buckets = buckets_hash;
  record.wishes = vote.wishes;
  return record;
}

std::array<std::byte, kVoteBytes> EncodeVote(const VoteRecord& record) {
  std::array<std::byte, kVoteBytes> bytes{};
  ByteWriter(bytes.data())
      .Put(record.round)
      .Put(record.step)
      .Put(record.prepared_term)
      .Put(record.prepared_id)
      .Put(record.digest)
      .Put(record.buckets)
      .Put(record.wishes);
  return bytes;
}

VoteRecord DecodeVote(absl::Span<const std::byte> bytes) {
  ByteReader reader(bytes.data());
  VoteRecord record;
  record.round = reader.Get<int64_t>();
  record.step = reader.Get<int64_t>();
  record.prepared_term = reader.Get<int64_t>();
  record.prepared_id = reader.Get<int64_t>();
  record.digest = reader.Get<uint64_t>();
  record.buckets = reader.Get<uint64_t>();
  record.wishes = reader.Get<uint32_t>();
  return record;
}

Verdict VerdictOf(absl::Span<const VoteRecord> votes) {
  Verdict verdict;
  verdict.min_step = verdict.max_step = votes[0].step;
  verdict.prepared = {votes[0].prepared_term, votes[0].prepared_id};
  for (const VoteRecord& v : votes) {
    verdict.min_step = std::min(verdict.min_step, v.step);
    verdict.max_step = std::max(verdict.max_step, v.step);
    verdict.prepared = std::min(verdict.prepared, ViewId{v.prepared_term, v.prepared_id});
    verdict.wishes |= v.wishes;
    verdict.digests_equal = verdict.digests_equal && v.digest == votes[0].digest;
  }
  return verdict;
}

}  // namespace everstep
