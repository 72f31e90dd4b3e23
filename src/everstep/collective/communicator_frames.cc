// collective: the Communicator's frames coming in, and its conclusions.
#include <utility>

#include "everstep/base/status.h"
#include "everstep/collective/tree_communicator.h"
#include "everstep/collective/vote_codec.h"

namespace everstep {
namespace {

absl::Status Refused(const Frame& frame, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("sent a frame that was refused, ", why, " (kind ", static_cast<int>(frame.kind),
                   ", round ", frame.round, ", bucket ", frame.bucket, ", owner ", frame.owner,
                   ", node ", frame.node, ", offset ", frame.offset, ", ", frame.bytes, " bytes)"));
}

absl::Span<std::byte> BytesOf(float* at, int64_t floats) {
  return {reinterpret_cast<std::byte*>(at), static_cast<size_t>(floats) * sizeof(float)};
}

}  // namespace

absl::StatusOr<absl::Span<std::byte>> TreeCommunicator::Begin(int from, const Frame& frame) {
  if (frame.kind == FrameKind::kPartial || frame.kind == FrameKind::kResult) {
    if (frame.bucket < 0 || frame.bucket >= shop_.layout().num_buckets() || frame.bytes == 0 ||
        frame.bytes % sizeof(float) != 0 || frame.offset < 0) {
      return Refused(frame, "it has no place in the layout");
    }
    return frame.kind == FrameKind::kPartial ? BeginPartial(from, frame) : BeginResult(from, frame);
  }
  const bool fits = frame.kind == FrameKind::kVote       ? frame.bytes == kVoteBytes
                    : frame.kind == FrameKind::kFarewell ? frame.bytes <= kMaxFarewellBytes
                                                         : frame.bytes == 0;
  if (!fits) {
    return Refused(frame, "it has a wrong length");
  }
  texts_[from].resize(frame.bytes);
  return absl::MakeSpan(texts_[from]);
}

absl::StatusOr<absl::Span<std::byte>> TreeCommunicator::BeginPartial(int from, const Frame& frame) {
  const ReductionPlan& plan = shop_.plan();
  const int group = plan.group_of(from);
  const int index = shop_.StagedIndex(group, frame.node);
  if (frame.owner != parts_.rank || index < 0 || plan.DelegateOf(parts_.rank, group) != from) {
    return Refused(frame, "it is not for this member");
  }
  Staged& staged = shop_.staged(frame.bucket)[index];
  if (frame.offset == 0 && frame.round > staged.round && !staged.in_use) {
    staged.round = frame.round;
    staged.received = 0;
    staged.in_use = true;
  }
  const int64_t floats = static_cast<int64_t>(frame.bytes / sizeof(float));
  if (frame.round != staged.round || frame.offset != staged.received ||
      floats > staged.floats - frame.offset) {
    return Refused(frame, "it is of another round or out of order");
  }
  return BytesOf(staged.data + frame.offset, floats);
}

absl::StatusOr<absl::Span<std::byte>> TreeCommunicator::BeginResult(int from, const Frame& frame) {
  Op* op = Find(frame.round, frame.bucket);
  if (op == nullptr || frame.owner != from) return Refused(frame, "no such sum is under way");
  const int64_t floats = static_cast<int64_t>(frame.bytes / sizeof(float));
  for (SliceWork& slice : op->slices) {
    if (slice.owner() != from) continue;
    float* place = slice.ResultPlace(frame.offset, floats);
    if (place == nullptr) return Refused(frame, "it is out of order");
    return BytesOf(place, floats);
  }
  return Refused(frame, "this member is not the slice's delegate");
}

absl::Status TreeCommunicator::End(int from, const Frame& frame) {
  const int64_t floats = static_cast<int64_t>(frame.bytes / sizeof(float));
  switch (frame.kind) {
    case FrameKind::kPartial: {
      const int index = shop_.StagedIndex(shop_.plan().group_of(from), frame.node);
      shop_.staged(frame.bucket)[index].received += floats;
      break;
    }
    case FrameKind::kResult:
      for (SliceWork& slice : Find(frame.round, frame.bucket)->slices) {
        if (slice.owner() == from) slice.ResultReceived(floats);
      }
      break;
    case FrameKind::kVote: {
      ReceivedVote& vote = votes_[from][static_cast<size_t>(frame.offset & 1)];
      // A peer votes for k + 2 only after it has this member's vote for k + 1.
      if (frame.offset < conclusions_ || frame.offset > conclusions_ + 1) {
        return Refused(frame, "it is a vote of another round");
      }
      vote.number = frame.offset;
      vote.record = DecodeVote(texts_[from]);
      break;
    }
    case FrameKind::kFarewell:
      departures_.Set(
          from, frame.owner,
          std::string(reinterpret_cast<const char*>(texts_[from].data()), texts_[from].size()));
      break;
    case FrameKind::kPing:
      break;
  }
  return absl::OkStatus();
}

bool TreeCommunicator::HaveVote(int rank, int64_t number) const {
  if (!shop_.plan().InOwnGroup(rank)) {
    return votes_[rank][static_cast<size_t>(number & 1)].number == number;
  }
  const CellPage& cells = *NeighbourOf(rank).cells;
  return cells.votes[number & 1].word.load() > static_cast<uint64_t>(number);
}

const VoteRecord& TreeCommunicator::VoteOf(int rank, int64_t number) const {
  if (!shop_.plan().InOwnGroup(rank)) {
    return votes_[rank][static_cast<size_t>(number & 1)].record;
  }
  return NeighbourOf(rank).cells->votes[number & 1].record;
}

absl::StatusOr<Verdict> TreeCommunicator::Conclude(Round round, const Vote& vote,
                                                   Deadline deadline) {
  if (failure_.any()) return failure_.status();
  const uint64_t word = WordOf(round, kVoteBucket);
  const bool fresh = last_word_ == 0 || BucketOf(last_word_) == kVoteBucket;
  if (round < 0 || word <= last_word_ || (!fresh && RoundOf(last_word_) != round)) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("round ", round, " cannot be concluded after round ", RoundOf(last_word_))));
  }
  EV_RETURN_IF_ERROR(Await([this] { return ops_.empty(); },
                           [this](const auto& wait) { WaitsOfOps(wait); }, deadline));
  const VoteRecord record = RecordOf(round, vote, fresh ? 0 : buckets_hash_);
  last_word_ = word;
  const int64_t number = conclusions_;
  CellPage::VoteCell& cell = parts_.cells->votes[number & 1];
  cell.record = record;
  cell.word.store(static_cast<uint64_t>(number) + 1);
  RingGroup();
  Frame frame;
  frame.kind = FrameKind::kVote;
  frame.round = round;
  frame.offset = number;
  for (StreamLink* link : link_pointers_) {
    if (link != nullptr) link->QueueFrame(frame, EncodeVote(record));
  }
  const int members = shop_.plan().num_members();
  const auto missing = [&](int r) {
    // Who has left had all it needed, and takes nothing more.
    const bool sending = links_[r] != nullptr && !links_[r]->idle() && !departures_.Has(r);
    return sending || !HaveVote(r, number);
  };
  const absl::Status all = Await(
      [&] {
        for (int r = 0; r < members; ++r) {
          if (missing(r)) return false;
        }
        return true;
      },
      [&](const auto& wait) {
        for (int r = 0; r < members; ++r) {
          if (missing(r)) wait(r, word);
        }
      },
      deadline);
  EV_RETURN_IF_ERROR(all);
  ++conclusions_;
  return Judge(round, number);
}

absl::StatusOr<Verdict> TreeCommunicator::Judge(Round round, int64_t number) {
  std::vector<VoteRecord> records;
  const VoteRecord own = VoteOf(parts_.rank, number);
  for (int r = 0; r < shop_.plan().num_members(); ++r) {
    records.push_back(VoteOf(r, number));
    if (records.back().round != own.round || records.back().buckets != own.buckets) {
      return Fail(PeerFailure(absl::StatusCode::kInternal, parts_.view, r,
                              absl::StrCat("concluded round ", records.back().round,
                                           " or other buckets where this member concluded round ",
                                           round, ": members do not run the same program")));
    }
  }
  return VerdictOf(records);
}

}  // namespace everstep
