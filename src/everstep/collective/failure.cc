// collective: the first error of a communicator.
#include "everstep/collective/failure.h"

#include <charconv>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "everstep/collective/communicator.h"

namespace everstep {
namespace {
constexpr char kBlamedRank[] = "everstep/blamed-rank";
}  // namespace

std::string NameOf(const View& view, int rank) {
  return absl::StrCat(view.members[rank].task.ToString(), " (rank ", rank, ")");
}

absl::Status PeerFailure(absl::StatusCode code, const View& view, int rank,
                         const std::string& what) {
  absl::Status status(code, absl::StrCat(NameOf(view, rank), " ", what));
  status.SetPayload(kBlamedRank, absl::Cord(std::to_string(rank)));
  return status;
}

int BlamedPeer(const absl::Status& status) {
  const auto payload = status.GetPayload(kBlamedRank);
  if (!payload.has_value()) return -1;
  const std::string text(*payload);
  int rank = -1;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  return rank;
}

void Failure::Set(absl::Status error) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!first_.ok() || error.ok()) return;
    first_ = std::move(error);
    any_.store(true);
  }
  wake_();
}

absl::Status Failure::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_;
}

}  // namespace everstep
