// checkpoint: finding.
#include "everstep/checkpoint/find.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

constexpr std::string_view kIndexSuffix = ".index";

auto Age(const CheckpointId& id) {
  return std::make_tuple(id.history, id.step, id.view.term, id.view.id);
}

}  // namespace

std::string CheckpointId::DirectoryName() const {
  return absl::StrCat("step-", step, "-h", history, "-v", view.ToString());
}

std::string CheckpointInfo::prefix() const { return JoinPath(path, "state"); }

std::optional<CheckpointId> ParseCheckpointName(std::string_view name) {
  CheckpointId id;
  long long step = 0, history = 0, term = 0, view = 0;
  if (std::sscanf(std::string(name).c_str(), "step-%lld-h%lld-v%lld.%lld", &step, &history, &term,
                  &view) != 4) {
    return std::nullopt;
  }
  id.step = step;
  id.history = history;
  id.view = {term, view};
  // Nothing before, between or after that a writer would not write.
  if (step < 0 || id.DirectoryName() != name) return std::nullopt;
  return id;
}

absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(FileSystem& fs,
                                                            const std::string& directory) {
  std::vector<CheckpointInfo> found;
  const absl::StatusOr<std::vector<std::string>> names = fs.List(directory);
  if (absl::IsNotFound(names.status())) return found;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::optional<CheckpointId> id = ParseCheckpointName(name);
    if (id.has_value()) found.push_back({*id, JoinPath(directory, name)});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointInfo& a, const CheckpointInfo& b) { return Age(a.id) < Age(b.id); });
  return found;
}

absl::StatusOr<CheckpointInfo> LatestCheckpoint(FileSystem& fs, const std::string& directory,
                                                std::vector<RejectedCheckpoint>* rejected) {
  EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all, ListCheckpoints(fs, directory));
  absl::Status newest;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    const auto stored = StoredState::Open(fs, at->prefix());
    absl::Status status = stored.ok() ? (*stored)->Verify() : stored.status();
    if (status.ok()) return *at;
    if (newest.ok()) newest = status;
    if (rejected != nullptr) rejected->push_back({*at, std::move(status)});
  }
  if (all.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, ": there is no checkpoint in it"));
  }
  return absl::DataLossError(absl::StrCat(directory, ": none of its ", all.size(),
                                          " checkpoints is good; the newest: ", newest.message()));
}

std::optional<std::string> CheckpointsDirectory(FileSystem& fs, const std::string& path) {
  if (!fs.IsDirectory(path)) return std::nullopt;
  const std::string inside = CheckpointsPath(path);
  if (fs.IsDirectory(inside)) return inside;
  const auto list = ListCheckpoints(fs, path);
  if (list.ok() && !list->empty()) return path;
  return std::nullopt;
}

absl::StatusOr<std::string> FindCheckpoint(FileSystem& fs, const std::string& path) {
  if (absl::EndsWith(path, ToAbsl(kIndexSuffix)) && fs.Exists(path)) {
    return path.substr(0, path.size() - kIndexSuffix.size());
  }
  if (fs.Exists(absl::StrCat(path, ToAbsl(kIndexSuffix)))) return path;
  if (fs.Exists(JoinPath(path, "state.index"))) return JoinPath(path, "state");
  const std::optional<std::string> directory = CheckpointsDirectory(fs, path);
  if (directory.has_value()) {
    EV_ASSIGN_OR_RETURN(const CheckpointInfo latest, LatestCheckpoint(fs, *directory));
    return latest.prefix();
  }
  if (!fs.Exists(path)) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  return absl::NotFoundError(absl::StrCat(
      path, ": neither a job directory, nor one of checkpoints, nor a checkpoint (PREFIX.index)"));
}

}  // namespace everstep
