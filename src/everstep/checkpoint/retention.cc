// checkpoint: retention.
#include "everstep/checkpoint/retention.h"

#include <algorithm>

#include "everstep/io/publish.h"

namespace everstep {
namespace {

// What somebody has named is somebody's.
bool HasOurName(const CheckpointInfo& info) {
  return ParseCheckpointName(BaseName(info.path)).has_value();
}

bool ByAge(const CheckpointInfo& a, const CheckpointInfo& b) { return a.id < b.id; }

// Nothing goes on the strength of what may be damaged.
void KeepAGoodOne(const CheckpointId& committed,
                  absl::FunctionRef<bool(const CheckpointInfo&)> is_good, RetentionPlan* plan) {
  // The new one first: it has not been read by anybody yet, and is the newest mostly.
  std::vector<CheckpointInfo> kept(plan->kept.rbegin(), plan->kept.rend());
  std::stable_partition(kept.begin(), kept.end(),
                        [&](const CheckpointInfo& info) { return info.id == committed; });
  if (std::any_of(kept.begin(), kept.end(), is_good)) return;
  auto& retired = plan->retired;
  auto at = retired.rbegin();
  while (at != retired.rend() && !(at->opened.ok() && is_good(*at))) ++at;
  if (at == retired.rend()) {
    // None at all: whatever can still be got out of them is worth more than their space.
    retired.clear();
    return;
  }
  plan->kept.push_back(*at);
  std::sort(plan->kept.begin(), plan->kept.end(), ByAge);
  retired.erase(std::next(at).base());
}

}  // namespace

RetentionPlan PlanRetention(absl::Span<const CheckpointInfo> all, const RetentionRule& rule,
                            const CheckpointId& committed,
                            absl::FunctionRef<bool(const CheckpointInfo&)> is_ours,
                            absl::FunctionRef<bool(const CheckpointInfo&)> is_good) {
  RetentionPlan plan;
  for (const CheckpointInfo& info : all) {
    if (info.opened.ok() && HasOurName(info) && is_ours(info)) plan.kept.push_back(info);
  }
  const auto keep_last = static_cast<size_t>(std::max(rule.keep_last, 0));
  if (keep_last == 0 || plan.kept.size() <= keep_last) return plan;
  const CheckpointId oldest = plan.kept[plan.kept.size() - keep_last].id;
  auto stays = [&](const CheckpointInfo& info) {
    return !(info.id < oldest) || info.id == committed ||
           (rule.keep_every > 0 && info.id.step % rule.keep_every == 0);
  };
  const auto first = std::stable_partition(plan.kept.begin(), plan.kept.end(), stays);
  plan.retired.assign(first, plan.kept.end());
  plan.kept.erase(first, plan.kept.end());
  for (const CheckpointInfo& info : all) {
    // One that cannot be opened for another reason may be good tomorrow, or another's.
    if (absl::IsDataLoss(info.opened) && HasOurName(info) && !stays(info)) {
      plan.retired.push_back(info);
    }
  }
  std::stable_sort(plan.retired.begin(), plan.retired.end(), ByAge);
  if (!plan.retired.empty()) KeepAGoodOne(committed, is_good, &plan);
  return plan;
}

}  // namespace everstep
