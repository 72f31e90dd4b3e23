// job: the job directory: where everything of a job lies, and who may write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/base/task.h"
#include "everstep/base/view.h"
#include "everstep/env/file.h"
#include "everstep/job/spec.h"

namespace everstep {

// Layout. Each path has a single writer:
std::string ResolvedPath(const std::string& job);  // who makes the job, once (exclusively)
std::string SecretPath(const std::string& job);    // who makes the job, once; mode 0600
std::string TermPath(const std::string& job, int64_t term);  // the coordinator that holds it
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

struct NewJob {
  JobSpec spec;  // `directory` empty: runs/<program>-<time> under the working directory
  std::vector<std::string> program;
  std::string version;     // of Everstep
  std::string secret_hex;  // what the secret file holds
};

// A job directory that this process has made.
class JobDirectory {
 public:
  // Makes the directory and in it resolved.json, the secret, checkpoints/ and logs/. What exists of
  // the path is used; what is in it stays. Errors name the path: kAlreadyExists with exit code 75
  // when it holds a job already, else exit code 78 when it cannot be written.
  static absl::StatusOr<JobDirectory> Create(FileSystem& fs, NewJob job);

  const std::string& path() const { return spec_.directory; }  // absolute
  const JobSpec& spec() const { return spec_; }                // with the directory filled in

  // Undoes Create, for a job that could not be started. Files of others stay.
  void Abandon();
  // The job is over: nobody needs to prove anything any more.
  void RemoveSecret();

 private:
  JobDirectory(FileSystem& fs, JobSpec spec) : fs_(&fs), spec_(std::move(spec)) {}
  absl::Status Fill(const NewJob& job);

  FileSystem* fs_;
  JobSpec spec_;
};

}  // namespace everstep
