// launch: which job.
#include "everstep/launch/job_choice.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/find.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/job/resume.h"
#include "everstep/job/status.h"

namespace everstep {
namespace {

absl::Status UsageError(const std::string& text) {
  return WithExitCode(absl::InvalidArgumentError(text), kExitUsage);
}

// A new job whose state begins as a checkpoint says. What belongs for life to the job of the
// checkpoint belongs to this one, too: with another seed or R it would be another training.
absl::StatusOr<JobChoice> BeginFrom(const ResumePoint& point, const std::string& directory,
                                    const std::map<std::string, std::string>& flags,
                                    const std::vector<std::string>& program) {
  JobChoice choice{{}, program, std::nullopt};
  if (point.job.empty()) {
    if (program.empty()) {
      return UsageError(absl::StrCat(
          point.restore_from, " lies in no job's directory, so nobody knows its program: end the ",
          "command with -- PROGRAM [ARGUMENTS]"));
    }
    EV_ASSIGN_OR_RETURN(choice.spec, ResolveJob(flags, GetEnvironment));
  } else {
    EV_ASSIGN_OR_RETURN(JobDirectory of,
                        JobDirectory::Resume(RealFileSystem(), {point.job, point.restore_from,
                                                                flags, GetEnvironment, program}));
    choice.spec = of.spec();
    choice.program = of.program();
  }
  choice.spec.directory = directory;
  choice.spec.restore_from.clear();
  choice.spec.begin_from = point.restore_from;
  return choice;
}

// What a run found out about its program, the next one knows from the start.
bool WasGang(FileSystem& fs, const std::string& job) {
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, StatusPath(job));
  if (!text.ok()) return false;
  const absl::StatusOr<JobStatus> status = FromStatusJson(*text, StatusPath(job));
  return status.ok() && status->gang;
}

}  // namespace

absl::StatusOr<JobChoice> ChooseJob(const std::string& resume,
                                    const std::map<std::string, std::string>& flags,
                                    const std::vector<std::string>& program) {
  if (resume.empty()) {
    EV_ASSIGN_OR_RETURN(JobSpec spec, ResolveJob(flags, GetEnvironment));
    return JobChoice{std::move(spec), program, std::nullopt};
  }
  EV_ASSIGN_OR_RETURN(const ResumePoint point, FindResumePoint(RealFileSystem(), resume));
  const auto flag = flags.find("job-dir");
  std::string directory;
  if (flag != flags.end()) {
    directory = AbsolutePath(flag->second);
  } else if (!point.restore_from.empty()) {
    const std::string said = GetEnvironment("EVERSTEP_JOB_DIR").value_or("");
    if (!said.empty()) directory = AbsolutePath(said);
  }
  if (!directory.empty() && directory != point.job) {
    if (!point.restore_from.empty()) return BeginFrom(point, directory, flags, program);
    return UsageError(absl::StrCat("--resume ", resume, " goes on in ", point.job,
                                   "; leave --job-dir out, or name a checkpoint to begin another "
                                   "job from"));
  }
  if (point.job.empty()) {
    return UsageError(absl::StrCat(point.restore_from,
                                   " lies in no job's directory; add --job-dir ",
                                   "DIR to begin a job from it"));
  }
  std::map<std::string, std::string> known = flags;
  if (program.empty() && WasGang(RealFileSystem(), point.job)) known.emplace("gang", "1");
  EV_ASSIGN_OR_RETURN(JobDirectory job,
                      JobDirectory::Resume(RealFileSystem(), {point.job, point.restore_from, known,
                                                              GetEnvironment, program}));
  for (const std::string& note : job.notes()) WriteAll(2, absl::StrCat("everstep: ", note, "\n"));
  const Step end = job.finished().has_value() ? job.finished()->step : 0;
  if (end > 0 && !HoldsStep(RealFileSystem(), CheckpointsPath(job.path()), end)) {
    WriteAll(
        2, absl::StrCat("everstep: the job was done at step ", end,
                        ", but no good checkpoint of it is left: it goes on from an older one\n"));
    job.ForgetEnd();
  }
  JobChoice choice{job.spec(), job.program(), std::nullopt};
  choice.resumed = std::move(job);
  return choice;
}

std::string FinishedNote(const JobDirectory& job) {
  const JobOutcome& outcome = *job.finished();
  // A program that is only watched has no steps.
  const std::string steps =
      outcome.step > 0 ? absl::StrCat(": ", outcome.step, " steps") : std::string();
  return absl::StrCat("the job ", job.path(), " is done already", steps, ", ", outcome.time,
                      "; to train longer, name its program again, with more epochs for instance");
}

}  // namespace everstep
