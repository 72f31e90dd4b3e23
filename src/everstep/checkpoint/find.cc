// checkpoint: finding.
#include "everstep/checkpoint/find.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/checkpoint/format.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

constexpr std::string_view kIndexSuffix = ".index";

constexpr int kLooks = 5;

bool HoldsFilesOfOurs(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = fs.List(path);
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return absl::StartsWith(name, "state.index") || absl::StartsWith(name, "state.data-");
  });
}

// What lies at `path`, if that is or was a checkpoint.
std::optional<CheckpointInfo> Look(FileSystem& fs, const std::string& path,
                                   const std::string& name) {
  if (name.front() == '.' || !fs.IsDirectory(path)) return std::nullopt;
  const std::optional<CheckpointId> named = ParseCheckpointName(name);
  if (!named.has_value() && !HoldsFilesOfOurs(fs, path)) return std::nullopt;
  CheckpointInfo info{named.value_or(CheckpointId{}), path, absl::OkStatus()};
  const auto stored = StoredState::Open(fs, info.prefix());
  if (stored.ok() && (*stored)->is_ours()) {
    info.id = IdOf(**stored, path);
  } else if (stored.ok()) {
    if (!named.has_value()) return std::nullopt;  // TensorFlow's
    info.opened = absl::FailedPreconditionError(
        absl::StrCat(path, ": is named like a checkpoint of Everstep but was not written by it"));
  } else if (absl::IsNotFound(stored.status())) {
    if (!fs.IsDirectory(path)) return std::nullopt;  // removed just now
    info.opened =
        absl::DataLossError(absl::StrCat(info.prefix(), ".index: missing index of a checkpoint"));
  } else {
    info.opened = stored.status();
  }
  return info;
}

// Why there is nothing to take.
absl::Status NoneOf(const std::string& directory, const std::vector<RejectedCheckpoint>& refused) {
  if (refused.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, ": there is no checkpoint in it"));
  }
  for (const RejectedCheckpoint& one : refused) {
    if (absl::IsFailedPrecondition(one.why) || absl::IsUnimplemented(one.why)) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, ": none of its ", refused.size(),
                       " checkpoints can be used here; the newest sound one: ", one.why.message()));
    }
  }
  return absl::DataLossError(
      absl::StrCat(directory, ": none of its ", refused.size(),
                   " checkpoints is good; the newest: ", refused.front().why.message()));
}

}  // namespace

std::string CheckpointId::DirectoryName() const {
  return absl::StrCat("step-", step, "-h", history, "-v", view.ToString());
}

std::string CheckpointInfo::prefix() const { return CheckpointPrefix(path); }

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

CheckpointId IdOf(const StoredState& stored, const std::string& path) {
  if (stored.id().has_value()) return *stored.id();
  const std::optional<CheckpointId> named = ParseCheckpointName(BaseName(path));
  if (named.has_value()) return *named;
  return {stored.ReadInt64("step").value_or(0), 0, {}};
}

absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(FileSystem& fs,
                                                            const std::string& directory) {
  std::vector<CheckpointInfo> found;
  const absl::StatusOr<std::vector<std::string>> names = fs.List(directory);
  if (absl::IsNotFound(names.status())) return found;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    std::optional<CheckpointInfo> info = Look(fs, JoinPath(directory, name), name);
    if (info.has_value()) found.push_back(*std::move(info));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.id < b.id; });
  return found;
}

absl::StatusOr<CheckpointInfo> NewestCheckpoint(
    FileSystem& fs, const std::string& directory,
    absl::FunctionRef<absl::Status(const StoredState&)> accept,
    std::vector<RejectedCheckpoint>* rejected) {
  std::vector<RejectedCheckpoint> refused;
  for (int look = 0; look < kLooks; ++look) {
    EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all, ListCheckpoints(fs, directory));
    bool vanished = false;
    refused.clear();
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
      absl::Status status = at->opened;
      if (status.ok()) {
        const auto stored = StoredState::Open(fs, at->prefix());
        status = stored.ok() ? accept(**stored) : stored.status();
      }
      if (status.ok()) {
        if (rejected != nullptr) *rejected = std::move(refused);
        return *at;
      }
      // Whoever commits may have retired it while it was read: then newer ones have come.
      vanished = !fs.IsDirectory(at->path);
      if (vanished) break;
      refused.push_back({at->id, at->path, std::move(status)});
    }
    if (vanished || (all.empty() && look > 0)) continue;
    const absl::Status none = NoneOf(directory, refused);
    if (rejected != nullptr) *rejected = std::move(refused);
    return none;
  }
  // Not kNotFound, which would mean that there are none.
  return absl::UnavailableError(absl::StrCat(
      directory,
      ": its checkpoints vanish while they are read; let nobody remove them and start again"));
}

absl::StatusOr<CheckpointInfo> LatestCheckpoint(FileSystem& fs, const std::string& directory,
                                                std::vector<RejectedCheckpoint>* rejected) {
  return NewestCheckpoint(
      fs, directory, [](const StoredState& stored) { return stored.Verify(); }, rejected);
}

std::optional<std::string> CheckpointsDirectory(FileSystem& fs, const std::string& path) {
  if (!fs.IsDirectory(path)) return std::nullopt;
  const std::string inside = CheckpointsPath(path);
  if (fs.IsDirectory(inside)) return inside;
  const auto list = ListCheckpoints(fs, path);
  if (list.ok() && !list->empty()) return path;
  return std::nullopt;
}

bool HoldsStep(FileSystem& fs, const std::string& directory, Step step) {
  const auto latest = LatestCheckpoint(fs, directory);
  return latest.ok() && latest->id.step >= step;
}

absl::StatusOr<std::string> FindCheckpoint(FileSystem& fs, const std::string& path) {
  if (absl::EndsWith(path, ToAbsl(kIndexSuffix)) && fs.Exists(path)) {
    return path.substr(0, path.size() - kIndexSuffix.size());
  }
  if (fs.Exists(absl::StrCat(path, ToAbsl(kIndexSuffix)))) return path;
  if (fs.Exists(BundleIndexPath(CheckpointPrefix(path)))) return CheckpointPrefix(path);
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
