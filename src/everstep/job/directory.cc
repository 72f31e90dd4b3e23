// job: the job directory.
#include "everstep/job/directory.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

// Whole or not at all, and kAlreadyExists when something is there.
absl::Status WriteNew(FileSystem& fs, const std::string& path, std::string_view text, int mode) {
  const std::string temporary = JoinPath(
      DirectoryOf(path),
      absl::StrCat(".", BaseName(path), ".tmp-", absl::Hex(RandomBits64(), absl::kZeroPad16)));
  const absl::Status status = [&] {
    EV_ASSIGN_OR_RETURN(auto file,
                        fs.OpenForWriting(temporary, FileSystem::Create::kExclusive, mode));
    EV_RETURN_IF_ERROR(file->Append(text));
    EV_RETURN_IF_ERROR(file->Sync());
    EV_RETURN_IF_ERROR(file->Close());
    return fs.Link(temporary, path);
  }();
  (void)fs.Remove(temporary);
  return status;
}

// resolved.json or run.json. kNotFound: it is not there.
absl::StatusOr<ResolvedJob> ReadResolved(FileSystem& fs, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fs, path));
  return FromResolvedJson(text, path);
}

// What belongs to the job for its whole life is in both files; a difference is damage that would
// make it another training. The replicas of a gang are but its workers, of which each run has as
// many as it was told.
absl::Status CheckSame(const JobSpec& made, const JobSpec& last, const std::string& job) {
  const bool gang = made.gang || last.gang;
  const auto text = [gang](const JobSpec& spec) {
    return absl::StrCat(gang ? std::string() : absl::StrCat("replicas ", spec.replicas, ", "),
                        "seed ", spec.seed, ", threads per replica ", spec.threads_per_replica,
                        ", CPU baseline ", spec.cpu_baseline);
  };
  if (text(made) == text(last)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(ResolvedPath(job), " says ", text(made), " but ",
                                          RunPath(job), " ", text(last),
                                          ": one of them is damaged; remove that one"));
}

absl::Status CannotBeMade(const absl::Status& status, const std::string& path) {
  return WithExitCode(Annotate(status, absl::StrCat("cannot make the job directory ", path,
                                                    " (choose another --job-dir)")),
                      kExitConfiguration);
}

}  // namespace

std::string ResolvedPath(const std::string& job) { return JoinPath(job, "resolved.json"); }
std::string TokenPath(const std::string& job) { return JoinPath(job, "token"); }
std::string SecretPath(const std::string& job) { return JoinPath(job, "secret"); }
std::string RunPath(const std::string& job) { return JoinPath(job, "run.json"); }
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

absl::StatusOr<std::string> ReadJobToken(FileSystem& fs, const std::string& job) {
  absl::StatusOr<std::string> token = ReadWholeFile(fs, TokenPath(job));
  if (token.ok()) return std::string(absl::StripAsciiWhitespace(*token));
  if (!absl::IsNotFound(token.status())) return token.status();
  return absl::NotFoundError(
      absl::StrCat(token.status().message(), "; the job directory must be on a file system that ",
                   "all hosts of the job share, and --job-dir say where it is on each"));
}

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
    JobDirectory directory(
        fs, {job.spec, job.program, job.version, WallTimestamp(), AbsolutePath(".")});
    const absl::Status status = directory.Fill(job);
    if (status.ok()) return directory;
    if (!absl::IsAlreadyExists(status) || !chosen || attempt == 100) return status;
  }
}

absl::Status JobDirectory::Fill(const NewJob& job) {
  absl::Status status = fs_->CreateDirectories(path());
  if (!status.ok()) return CannotBeMade(status, path());
  const absl::StatusOr<std::vector<std::string>> found = fs_->List(CheckpointsPath(path()));
  for (const std::string& name : found.ok() ? *found : std::vector<std::string>()) {
    if (name.rfind("step-", 0) != 0 || fs_->Exists(ResolvedPath(path()))) continue;
    return WithExitCode(
        absl::AlreadyExistsError(absl::StrCat(
            JoinPath(CheckpointsPath(path()), name), " is of a job whose resolved.json is gone; ",
            "choose another --job-dir, or begin a job from it by --resume ",
            JoinPath(CheckpointsPath(path()), name))),
        kExitNotNow);
  }
  status = WriteNew(*fs_, ResolvedPath(path()), ToResolvedJson(run_), 0644);
  if (absl::IsAlreadyExists(status)) {
    return WithExitCode(absl::AlreadyExistsError(absl::StrCat(
                            path(), " holds a job already; continue it by --resume ", path(),
                            " (EVERSTEP_RESUME), or choose another --job-dir "
                            "(EVERSTEP_JOB_DIR)")),
                        kExitNotNow);
  }
  if (!status.ok()) {
    (void)fs_->Remove(path());  // when it is empty
    return CannotBeMade(status, path());
  }
  made_ = true;
  if (!job.secret_hex.empty()) {
    status = PublishFile(*fs_, SecretPath(path()), job.secret_hex, 0600);
  }
  if (status.ok()) status = MakeToken();
  if (status.ok()) status = fs_->CreateDirectories(CheckpointsPath(path()));
  if (status.ok()) status = fs_->CreateDirectories(JoinPath(path(), "logs"));
  if (status.ok()) status = fs_->SyncDirectory(path());
  if (status.ok()) return status;
  Abandon();
  return CannotBeMade(status, path());
}

absl::Status JobDirectory::MakeToken() {
  return PublishFile(*fs_, TokenPath(path()),
                     absl::StrCat(absl::Hex(RandomBits64(), absl::kZeroPad16),
                                  absl::Hex(RandomBits64(), absl::kZeroPad16), "\n"));
}

absl::StatusOr<JobDirectory> JobDirectory::Resume(FileSystem& fs, const ResumedJob& job) {
  std::vector<std::string> notes;
  absl::StatusOr<ResolvedJob> made = ReadResolved(fs, ResolvedPath(job.directory));
  absl::StatusOr<ResolvedJob> last = ReadResolved(fs, RunPath(job.directory));
  if (absl::IsNotFound(made.status()) && absl::IsNotFound(last.status())) {
    return WithExitCode(
        absl::NotFoundError(
            absl::StrCat(job.directory, " holds no job; start one there by everstep run --job-dir ",
                         job.directory, " -- PROGRAM [ARGUMENTS]")),
        kExitConfiguration);
  }
  // Each can stand for the other; a job that was never run has no run.json.
  if (!made.ok() && !last.ok())
    return absl::IsNotFound(made.status()) ? last.status() : made.status();
  if (!made.ok()) {
    notes.push_back(absl::StrCat("going by run.json alone: ", made.status().message()));
    made = last;
  } else if (!last.ok()) {
    if (!absl::IsNotFound(last.status())) {
      notes.push_back(absl::StrCat("going by resolved.json alone: ", last.status().message()));
    }
    last = made;
  }
  EV_RETURN_IF_ERROR(CheckSame(made->spec, last->spec, job.directory));
  EV_ASSIGN_OR_RETURN(JobSpec spec,
                      ResolveAgain(made->spec, last->spec, job.flags, job.environment));
  spec.directory = job.directory;  // it may have been moved
  spec.restore_from = job.restore_from;
  spec.begin_from = made->spec.begin_from;
  JobDirectory directory(
      fs, {std::move(spec), job.program.empty() ? last->program : job.program, last->version,
           WallTimestamp(), job.program.empty() ? last->working_directory : AbsolutePath(".")});
  const absl::StatusOr<std::optional<JobOutcome>> read = ReadOutcome(fs, job.directory);
  if (!read.ok()) notes.push_back(std::string(read.status().message()));
  const std::optional<JobOutcome> outcome = read.ok() ? *read : std::nullopt;
  if (outcome.has_value() && outcome->code == kExitDone && job.restore_from.empty() &&
      (job.program.empty() || job.program == outcome->program)) {
    directory.finished_ = outcome;
  }
  directory.notes_ = std::move(notes);
  return directory;
}

JobDirectory JobDirectory::Of(FileSystem& fs, ResolvedJob run) {
  return JobDirectory(fs, std::move(run));
}

absl::Status JobDirectory::BeginRun(const std::string& version, const std::string& secret_hex) {
  run_.version = version;
  run_.time = WallTimestamp();
  absl::Status status = fs_->Remove(OutcomePath(path()));
  if (absl::IsNotFound(status)) status = absl::OkStatus();
  if (status.ok()) status = PublishFile(*fs_, SecretPath(path()), secret_hex, 0600);
  if (status.ok()) status = MakeToken();
  if (status.ok()) status = PublishFile(*fs_, RunPath(path()), ToResolvedJson(run_));
  if (status.ok()) status = fs_->CreateDirectories(CheckpointsPath(path()));
  if (status.ok()) status = fs_->CreateDirectories(JoinPath(path(), "logs"));
  if (absl::IsAlreadyExists(status)) status = WithExitCode(status, kExitConfiguration);
  return Annotate(status, absl::StrCat("cannot begin a run in the job directory ", path()));
}

void JobDirectory::Abandon() {
  if (!made_) return;
  // Directories go only when they are empty.
  (void)fs_->Remove(CheckpointsPath(path()));
  (void)fs_->Remove(JoinPath(path(), "logs"));
  for (const std::string& file : {SecretPath(path()), TokenPath(path()), RunPath(path()),
                                  StatusPath(path()), OutcomePath(path()), IncidentsPath(path())}) {
    (void)fs_->Remove(file);
  }
  (void)fs_->RemoveTree(JoinPath(path(), "terms"));
  (void)fs_->Remove(ResolvedPath(path()));
  (void)fs_->Remove(path());
}

void JobDirectory::RemoveSecret(const std::string& secret_hex) {
  if (!secret_hex.empty()) {
    const absl::StatusOr<std::string> text = ReadWholeFile(*fs_, SecretPath(path()));
    if (!text.ok() || *text != secret_hex) return;
  }
  (void)fs_->Remove(SecretPath(path()));
}

}  // namespace everstep
