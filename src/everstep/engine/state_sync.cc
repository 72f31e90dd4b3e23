// engine: state sync.
#include "everstep/engine/state_sync.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "everstep/base/status.h"
#include "everstep/base/tree.h"

namespace everstep {
namespace {

constexpr size_t kBytesPerFloat = 2;

class StateSync {
 public:
  StateSync(Communicator& communicator, const StateLayout& layout, int donor)
      : communicator_(communicator), layout_(layout), gives_(communicator.rank() == donor) {
    const View& view = communicator.view();
    const Member& self = view.members[communicator.rank()];
    nodes_ = PlanPartials(view.num_replicas, self.replica_begin, self.replica_end).nodes;
  }

  // One round moves this many bytes.
  size_t capacity() const { return kBytesPerFloat * static_cast<size_t>(layout_.gradient_size); }

  absl::Status Move(absl::Span<const std::byte> own, absl::Span<std::byte> out, Round round,
                    Deadline deadline) {
    const size_t floats = (own.size() + kBytesPerFloat - 1) / kBytesPerFloat;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      absl::Span<float> partial = communicator_.partial(static_cast<int>(i));
      std::fill_n(partial.begin(), layout_.gradient_size, 0.0f);
    }
    if (gives_) Encode(own, floats);
    std::vector<Ticket> tickets;
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      std::vector<Part> parts;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        parts.push_back(
            {nodes_[i], communicator_.partial(static_cast<int>(i))
                            .subspan(layout_.buckets[b].offset, layout_.buckets[b].size)});
      }
      EV_ASSIGN_OR_RETURN(const Ticket ticket,
                          communicator_.Reduce(round, static_cast<int>(b), parts, deadline));
      tickets.push_back(ticket);
    }
    for (const Ticket ticket : tickets) EV_RETURN_IF_ERROR(communicator_.Wait(ticket, deadline));
    Decode(floats, out);
    // The result must have been read by all before the next round writes it.
    return communicator_.Conclude(round, Vote{}, deadline).status();
  }

 private:
  void Encode(absl::Span<const std::byte> own, size_t floats) {
    absl::Span<float> partial = communicator_.partial(0);
    for (size_t k = 0; k < floats; ++k) {
      const size_t at = kBytesPerFloat * k;
      const uint32_t low = std::to_integer<uint32_t>(own[at]);
      const uint32_t high = at + 1 < own.size() ? std::to_integer<uint32_t>(own[at + 1]) : 0;
      partial[k] = static_cast<float>(low | high << 8);
    }
  }

  void Decode(size_t floats, absl::Span<std::byte> out) {
    const absl::Span<const float> result = communicator_.result();
    for (size_t k = 0; k < floats; ++k) {
      const auto bits = static_cast<uint32_t>(result[k]);
      const size_t at = kBytesPerFloat * k;
      out[at] = static_cast<std::byte>(bits & 0xff);
      if (at + 1 < out.size()) out[at + 1] = static_cast<std::byte>(bits >> 8);
    }
  }

  Communicator& communicator_;
  const StateLayout& layout_;
  const bool gives_;
  std::vector<TreeNode> nodes_;
};

}  // namespace

absl::Status SyncState(Communicator& communicator, const StateLayout& layout, int donor,
                       absl::Span<const std::byte> own, absl::Span<std::byte> out, Round* round,
                       Deadline deadline) {
  StateSync sync(communicator, layout, donor);
  for (size_t at = 0; at < own.size(); at += sync.capacity()) {
    EV_RETURN_IF_ERROR(sync.Move(own.subspan(at, sync.capacity()), out.subspan(at, sync.capacity()),
                                 (*round)++, deadline));
  }
  return absl::OkStatus();
}

}  // namespace everstep
