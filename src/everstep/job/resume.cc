// job: finding a job or a checkpoint by what people call it.
#include "everstep/job/resume.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/outcome.h"
#include "everstep/job/resolved.h"
#include "everstep/job/status.h"

namespace everstep {
namespace {

constexpr char kIndex[] = ".index";

// When the job last said something, as a timestamp; those sort as text.
std::string LastSign(FileSystem& fs, const std::string& job) {
  std::string newest;
  for (const std::string& path : {ResolvedPath(job), RunPath(job)}) {
    const absl::StatusOr<std::string> text = ReadWholeFile(fs, path);
    if (!text.ok()) continue;
    const absl::StatusOr<ResolvedJob> read = FromResolvedJson(*text, path);
    if (read.ok()) newest = std::max(newest, read->time);
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, StatusPath(job));
  if (text.ok()) {
    const absl::StatusOr<JobStatus> status = FromStatusJson(*text, StatusPath(job));
    if (status.ok()) newest = std::max(newest, status->time);
  }
  return newest;
}

bool FailedAtOnce(FileSystem& fs, const std::string& job) {
  const absl::StatusOr<std::optional<JobOutcome>> outcome = ReadOutcome(fs, job);
  return outcome.ok() && outcome->has_value() && (*outcome)->code != kExitDone &&
         !HasTrained(fs, job);
}

std::string Absolute(const std::string& text) {
  std::string path = AbsolutePath(text);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The checkpoint that `path` names, and the directory that it lies in; nothing when it names none.
struct NamedCheckpoint {
  std::string name, directory;
};
std::optional<NamedCheckpoint> CheckpointAt(FileSystem& fs, const std::string& path) {
  if (fs.Exists(JoinPath(path, absl::StrCat("state", kIndex)))) return NamedCheckpoint{path, path};
  if (fs.Exists(absl::StrCat(path, kIndex))) return NamedCheckpoint{path, DirectoryOf(path)};
  if (absl::EndsWith(path, kIndex) && fs.Exists(path)) {
    const std::string prefix = path.substr(0, path.size() - sizeof kIndex + 1);
    return NamedCheckpoint{prefix, DirectoryOf(prefix)};
  }
  return std::nullopt;
}

}  // namespace

bool HasTrained(FileSystem& fs, const std::string& job) {
  const absl::StatusOr<std::vector<std::string>> checkpoints = fs.List(CheckpointsPath(job));
  for (const std::string& name : checkpoints.ok() ? *checkpoints : std::vector<std::string>()) {
    if (absl::StartsWith(name, "step-")) return true;
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, StatusPath(job));
  if (!text.ok()) return false;
  const absl::StatusOr<JobStatus> status = FromStatusJson(*text, StatusPath(job));
  return status.ok() && (status->step > 0 || !status->checkpoint_path.empty());
}

absl::StatusOr<std::string> LatestJob(FileSystem& fs, const std::string& runs) {
  std::tuple<bool, std::string, std::string> newest;  // whether it is worth it, sign, name
  const absl::StatusOr<std::vector<std::string>> names = fs.List(runs);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string job = JoinPath(runs, name);
    if (fs.Exists(ResolvedPath(job))) {
      newest = std::max(newest, {!FailedAtOnce(fs, job), LastSign(fs, job), name});
    }
  }
  const std::string& name = std::get<2>(newest);
  if (name.empty()) return absl::NotFoundError(absl::StrCat("there is no job in ", runs));
  return JoinPath(runs, name);
}

absl::StatusOr<ResumePoint> FindResumePoint(FileSystem& fs, const std::string& text) {
  if (text == "latest") {
    absl::StatusOr<std::string> job = LatestJob(fs, AbsolutePath("runs"));
    if (job.ok()) return ResumePoint{*std::move(job), ""};
    return WithExitCode(
        absl::NotFoundError(absl::StrCat(job.status().message(),
                                         "; start one by everstep run -- PROGRAM [ARGUMENTS]")),
        kExitConfiguration);
  }
  const std::string path = Absolute(text);
  if (fs.Exists(ResolvedPath(path))) return ResumePoint{path, ""};
  const std::optional<NamedCheckpoint> checkpoint = CheckpointAt(fs, path);
  if (!checkpoint.has_value()) {
    return WithExitCode(absl::NotFoundError(absl::StrCat(
                            path, " holds no job and is no checkpoint; start a job there by ",
                            "everstep run --job-dir ", path, " -- PROGRAM [ARGUMENTS]")),
                        kExitConfiguration);
  }
  const std::string above = DirectoryOf(checkpoint->directory);
  const std::string job = DirectoryOf(above);
  const bool in_job = BaseName(above) == "checkpoints" && fs.Exists(ResolvedPath(job));
  return ResumePoint{in_job ? job : "", checkpoint->name};
}

absl::StatusOr<std::string> FindJob(FileSystem& fs, const std::string& text) {
  absl::Status status;
  if (text == "latest") {
    absl::StatusOr<std::string> job = LatestJob(fs, AbsolutePath("runs"));
    if (job.ok()) return job;
    status = job.status();
  } else {
    std::string path = Absolute(text);
    if (fs.Exists(ResolvedPath(path))) return path;
    status =
        absl::NotFoundError(absl::StrCat(path, " is no job directory: it has no resolved.json"));
  }
  return WithExitCode(status, kExitBadData);
}

}  // namespace everstep
