// job: the job directory.
#include "everstep/job/directory.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/env/clock.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

absl::Status WriteNew(FileSystem& fs, const std::string& path, std::string_view text, int mode) {
  EV_ASSIGN_OR_RETURN(auto file, fs.OpenForWriting(path, FileSystem::Create::kExclusive, mode));
  EV_RETURN_IF_ERROR(file->Append(text));
  EV_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status CannotBeMade(const absl::Status& status, const std::string& path) {
  return WithExitCode(Annotate(status, absl::StrCat("cannot make the job directory ", path,
                                                    " (choose another --job-dir)")),
                      kExitConfiguration);
}

}  // namespace

std::string ResolvedPath(const std::string& job) { return JoinPath(job, "resolved.json"); }
std::string SecretPath(const std::string& job) { return JoinPath(job, "secret"); }
std::string TermPath(const std::string& job, int64_t term) {
  return JoinPath(job, absl::StrCat("terms/", term));
}
std::string CheckpointsPath(const std::string& job) { return JoinPath(job, "checkpoints"); }
std::string CheckpointPath(const std::string& job, Step step, History history, ViewId view) {
  return JoinPath(CheckpointsPath(job),
                  absl::StrCat("step-", step, "-h", history, "-v", view.ToString()));
}
std::string EventsPath(const std::string& job) { return JoinPath(job, "events"); }
std::string LogDirectory(const std::string& job, const Task& task) {
  return JoinPath(job, absl::StrCat("logs/", task.type, "_", task.index));
}
std::string LogPath(const std::string& job, const Task& task, Incarnation incarnation) {
  return JoinPath(LogDirectory(job, task), absl::StrCat(incarnation, ".log"));
}
std::string IncidentsPath(const std::string& job) { return JoinPath(job, "incidents.jsonl"); }
std::string StatusPath(const std::string& job) { return JoinPath(job, "status.json"); }
std::string OutcomePath(const std::string& job) { return JoinPath(job, "outcome.json"); }

absl::StatusOr<JobDirectory> JobDirectory::Create(FileSystem& fs, NewJob job) {
  const bool chosen = job.spec.directory.empty();
  std::string base = job.spec.directory;
  if (chosen) {
    const std::string program = job.program.empty() ? "job" : BaseName(job.program[0]);
    base = AbsolutePath(absl::StrCat("runs/", program, "-", WallTimeForNames()));
  }
  // Jobs started in the same second want the same name.
  for (int attempt = 1;; ++attempt) {
    job.spec.directory = attempt == 1 ? base : absl::StrCat(base, "-", attempt);
    JobDirectory directory(fs, job.spec);
    const absl::Status status = directory.Fill(job);
    if (status.ok()) return directory;
    if (!absl::IsAlreadyExists(status) || !chosen || attempt == 100) return status;
  }
}

absl::Status JobDirectory::Fill(const NewJob& job) {
  const std::string& path = spec_.directory;
  absl::Status status = fs_->CreateDirectories(path);
  if (!status.ok()) return CannotBeMade(status, path);
  status =
      WriteNew(*fs_, ResolvedPath(path), ToResolvedJson(spec_, job.version, job.program), 0644);
  if (absl::IsAlreadyExists(status)) {
    return WithExitCode(
        absl::AlreadyExistsError(absl::StrCat(
            "the job directory ", path, " is in use or its job is over; choose another --job-dir")),
        kExitNotNow);
  }
  if (status.ok()) {
    (void)fs_->Remove(SecretPath(path));  // of a job abandoned here
    status = WriteNew(*fs_, SecretPath(path), job.secret_hex, 0600);
  }
  if (status.ok()) status = fs_->CreateDirectories(CheckpointsPath(path));
  if (status.ok()) status = fs_->CreateDirectories(JoinPath(path, "logs"));
  if (status.ok()) status = fs_->SyncDirectory(path);
  if (status.ok()) return status;
  Abandon();
  return CannotBeMade(status, path);
}

void JobDirectory::Abandon() {
  // Directories go only when they are empty.
  (void)fs_->Remove(CheckpointsPath(path()));
  (void)fs_->Remove(JoinPath(path(), "logs"));
  (void)fs_->Remove(SecretPath(path()));
  (void)fs_->Remove(ResolvedPath(path()));
  (void)fs_->Remove(path());
}

void JobDirectory::RemoveSecret() { (void)fs_->Remove(SecretPath(path())); }

}  // namespace everstep
