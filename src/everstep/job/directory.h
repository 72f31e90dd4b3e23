// job: the job directory: where everything of a job lies, and who may write it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/base/task.h"
#include "everstep/base/view.h"
#include "everstep/env/file.h"
#include "everstep/job/outcome.h"
#include "everstep/job/resolved.h"
#include "everstep/job/spec.h"

namespace everstep {

// Layout. Each path has a single writer:
std::string ResolvedPath(const std::string& job);  // who makes the job, once (exclusively)
std::string TokenPath(const std::string& job);     // who makes the job, once
std::string TermPath(const std::string& job, int64_t term);  // the coordinator that holds it
// Who makes the job; then the coordinator that holds the highest term, for each run:
std::string SecretPath(const std::string& job);  // mode 0600
std::string RunPath(const std::string& job);     // as resolved.json, of the newest run
std::string CheckpointsPath(const std::string& job);
// Workers their shards; the index by the committer.
std::string CheckpointPath(const std::string& job, Step step, History history, ViewId view);
std::string EventsPath(const std::string& job);  // the committer; a new file per view
std::string LogDirectory(const std::string& job, const Task& task);
// The agent of that host.
std::string LogPath(const std::string& job, const Task& task, Incarnation incarnation);
// The coordinator that holds the highest term:
std::string IncidentsPath(const std::string& job);
std::string StatusPath(const std::string& job);
std::string OutcomePath(const std::string& job);  // at the end of a run

// The token that proves to a worker on another host that it sees this directory: random, in hex.
// kNotFound, saying what to do: it does not.
absl::StatusOr<std::string> ReadJobToken(FileSystem& fs, const std::string& job);

struct NewJob {
  JobSpec spec;  // `directory` empty: runs/<program>-<time> under the working directory
  std::vector<std::string> program;
  std::string version;     // of Everstep
  std::string secret_hex;  // what the secret file holds; empty: BeginRun will say
};

struct ResumedJob {
  std::string directory;     // that holds a job
  std::string restore_from;  // the only checkpoint to go on from; empty: the newest good one
  std::map<std::string, std::string> flags;  // as ResolveJob takes them
  Environment environment;
  std::vector<std::string> program;  // empty: that of the last run
};

// The directory of a job that this process has made, or that it continues. Whoever runs the job
// there takes a term first (term.h), and then calls BeginRun.
class JobDirectory {
 public:
  // Makes the directory and in it resolved.json, the token, a secret, checkpoints/ and logs/.
  // What exists of the path is used; what is in it stays. Errors name the path: kAlreadyExists with
  // exit code 75 when it holds a job already, else exit code 78 when it cannot be written.
  static absl::StatusOr<JobDirectory> Create(FileSystem& fs, NewJob job);

  // Reads what the directory says of its job; changes nothing. Errors: those of ResolveAgain; exit
  // code 78 when it holds no job; kDataLoss when its resolved.json is damaged.
  static absl::StatusOr<JobDirectory> Resume(FileSystem& fs, const ResumedJob& job);

  // One that another process has made or resumed, as that tells it.
  static JobDirectory Of(FileSystem& fs, ResolvedJob run);

  const std::string& path() const { return run_.spec.directory; }  // absolute
  const JobSpec& spec() const { return run_.spec; }                // with the directory filled in
  const std::vector<std::string>& program() const { return run_.program; }
  const ResolvedJob& run() const { return run_; }
  // The end of a job that is done and is resumed with the same program and arguments.
  const std::optional<JobOutcome>& finished() const { return finished_; }
  // What it ended with is lost: it is not done after all.
  void ForgetEnd() { finished_.reset(); }
  // What Resume found damaged and could do without, a line each, for people.
  const std::vector<std::string>& notes() const { return notes_; }

  // By the holder of its newest term: a new secret and token, run.json; the outcome of a run before
  // is gone.
  absl::Status BeginRun(const std::string& version, const std::string& secret_hex);

  // Undoes Create, for a job that could not be started. Files of others stay. Does nothing to a
  // directory that this process has not made.
  void Abandon();
  // The run is over: nobody needs to prove anything any more. With `secret_hex` only when that is
  // still the secret, and not another run's.
  void RemoveSecret(const std::string& secret_hex = "");

 private:
  JobDirectory(FileSystem& fs, ResolvedJob run) : fs_(&fs), run_(std::move(run)) {}
  absl::Status Fill(const NewJob& job);
  absl::Status MakeToken();

  FileSystem* fs_;
  ResolvedJob run_;
  bool made_ = false;
  std::optional<JobOutcome> finished_;
  std::vector<std::string> notes_;
};

}  // namespace everstep
