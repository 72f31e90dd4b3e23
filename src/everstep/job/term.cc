// job: terms, as files made by exclusive link(2).
#include "everstep/job/term.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/json_fields.h"

namespace everstep {
namespace {

constexpr char kFormat[] = "everstep.term.v1";

std::string TermsPath(const std::string& job) { return JoinPath(job, "terms"); }

// The highest number among the names, 0 when there is none.
absl::StatusOr<int64_t> HighestTerm(FileSystem& fs, const std::string& job) {
  int64_t highest = 0;
  const absl::StatusOr<std::vector<std::string>> names = fs.List(TermsPath(job));
  if (absl::IsNotFound(names.status())) return highest;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    int64_t number = 0;
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        absl::SimpleAtoi(name, &number)) {
      highest = std::max(highest, number);
    }
  }
  return highest;
}

}  // namespace

std::string TermHolder::Describe() const {
  if (process.pid == 0) return absl::StrCat("the run of term ", term);
  return absl::StrCat("the run of term ", term, " (pid ", process.pid, " on host ", process.host,
                      ")");
}

std::string ToTermJson(const TermHolder& holder) {
  FieldWriter w(kFormat);
  w.Put("term", holder.term);
  w.Put("host", holder.process.host);
  w.Put("boot_id", holder.process.boot_id);
  w.Put("pid_namespace", holder.process.pid_namespace);
  w.Put("pid", holder.process.pid);
  w.Put("start_time", holder.process.start_time);
  w.PutNumber("grace_seconds", ToSeconds(holder.grace));
  w.Put("counter", holder.counter);
  w.json()["ended"] = holder.ended;
  return Dump(w.json()) + "\n";
}

absl::StatusOr<TermHolder> FromTermJson(std::string_view text, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(text, kFormat, path));
  TermHolder holder;
  double grace = 0;
  FieldReader r(json);
  r.Get("term", &holder.term);
  r.Get("host", &holder.process.host);
  r.Get("boot_id", &holder.process.boot_id);
  r.Get("pid_namespace", &holder.process.pid_namespace);
  r.Get("pid", &holder.process.pid);
  r.Get("start_time", &holder.process.start_time);
  r.Get("grace_seconds", &grace);
  r.Get("counter", &holder.counter);
  r.Get("ended", &holder.ended);
  r.Check("grace_seconds", grace >= 0 && grace <= 86400);
  EV_RETURN_IF_ERROR(r.status(path));
  holder.grace = Duration(std::llround(grace * 1e9));
  return holder;
}

absl::StatusOr<std::optional<TermHolder>> NewestTerm(FileSystem& fs, const std::string& job) {
  EV_ASSIGN_OR_RETURN(const int64_t number, HighestTerm(fs, job));
  if (number == 0) return std::nullopt;
  const std::string path = TermPath(job, number);
  EV_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fs, path));
  absl::StatusOr<TermHolder> holder = FromTermJson(text, path);
  TermHolder known = holder.ok() ? *std::move(holder) : TermHolder{};
  known.term = number;
  return known;
}

bool IsOver(const TermHolder& holder) { return holder.ended || IsKnownGone(holder.process); }

absl::Status Term::Renew() {
  const absl::StatusOr<std::string> text = ReadWholeFile(*fs_, TermPath(job_, number()));
  if (absl::IsNotFound(text.status())) {
    taken_away_ = true;
    return absl::FailedPreconditionError(
        absl::StrCat(text.status().message(),
                     ": the job directory was moved, or somebody has removed its terms"));
  }
  ++holder_.counter;
  return PublishFile(*fs_, TermPath(job_, number()), ToTermJson(holder_));
}

absl::Status Term::End() {
  holder_.ended = true;
  return Renew();
}

absl::StatusOr<bool> Term::IsSuperseded() const {
  if (taken_away_) return true;
  EV_ASSIGN_OR_RETURN(const int64_t highest, HighestTerm(*fs_, job_));
  return highest > number();
}

class TermTaker {
 public:
  TermTaker(FileSystem& fs, const std::string& job, const TakeTermOptions& options)
      : fs_(fs), job_(job), options_(options) {}

  absl::StatusOr<Term> Run();

 private:
  TimePoint Now() const {
    return (options_.clock != nullptr ? *options_.clock : BootClock()).Now();
  }
  // OK: over. kAlreadyExists: it still lives after all that time.
  absl::Status AwaitEndOf(const TermHolder& first);
  // kAlreadyExists: another one was faster.
  absl::StatusOr<Term> Take(int64_t number);

  FileSystem& fs_;
  const std::string& job_;
  const TakeTermOptions& options_;
  std::optional<TimePoint> give_up_at_;
};

absl::StatusOr<Term> TermTaker::Run() {
  const absl::Status made = fs_.CreateDirectories(TermsPath(job_));
  // Something else of that name.
  if (absl::IsAlreadyExists(made)) return absl::NotFoundError(made.message());
  EV_RETURN_IF_ERROR(made);
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(job_));
  while (true) {
    EV_ASSIGN_OR_RETURN(const std::optional<TermHolder> newest, NewestTerm(fs_, job_));
    if (newest.has_value()) EV_RETURN_IF_ERROR(AwaitEndOf(*newest));
    absl::StatusOr<Term> term = Take(newest.has_value() ? newest->term + 1 : 1);
    if (!absl::IsAlreadyExists(term.status())) return term;
  }
}

absl::Status TermTaker::AwaitEndOf(const TermHolder& first) {
  if (IsOver(first)) return absl::OkStatus();
  TimePoint changed = Now();
  if (!give_up_at_.has_value()) {
    // One on another host shows by its counter only that it is over.
    const Duration at_most = std::max(first.grace, options_.still_for + std::chrono::seconds(1));
    give_up_at_ = changed + at_most;
    const auto seconds = static_cast<int64_t>(std::ceil(ToSeconds(at_most)));
    std::string holder = first.Describe();
    if (first.process.pid != 0) {
      holder = absl::StrCat("the run that holds ", job_, " (pid ", first.process.pid, " on host ",
                            first.process.host, ")");
    }
    if (options_.on_wait) {
      options_.on_wait(absl::StrCat("waiting up to ", seconds, " s for ", holder), at_most);
    }
  }
  for (int64_t counter = first.counter;;) {
    if (options_.give_up && options_.give_up()) {
      return absl::CancelledError("told to leave while another run held the job directory");
    }
    SleepFor(options_.poll);
    const TimePoint now = Now();
    const absl::StatusOr<std::optional<TermHolder>> newest = NewestTerm(fs_, job_);
    // What cannot be read cannot be seen to stand still.
    if (!newest.ok() || !newest->has_value()) {
      changed = now;
    } else if ((*newest)->term != first.term || IsOver(**newest)) {
      return absl::OkStatus();  // over, or another one has it
    } else if ((*newest)->counter != counter) {
      counter = (*newest)->counter;
      changed = now;
    }
    if (now - changed >= options_.still_for) return absl::OkStatus();
    if (now >= *give_up_at_) {
      return WithExitCode(
          absl::AlreadyExistsError(absl::StrCat(job_, " is in use by ", first.Describe(),
                                                "; stop that one, or run this job elsewhere")),
          kExitNotNow);
    }
  }
}

absl::StatusOr<Term> TermTaker::Take(int64_t number) {
  TermHolder holder;
  holder.term = number;
  holder.process = OwnIdentity();
  holder.grace = options_.grace;
  const std::string temporary =
      JoinPath(TermsPath(job_), absl::StrCat(".", number, ".tmp-", absl::Hex(RandomBits64())));
  absl::Status status = [&] {
    EV_ASSIGN_OR_RETURN(const auto file,
                        fs_.OpenForWriting(temporary, FileSystem::Create::kExclusive));
    EV_RETURN_IF_ERROR(file->Append(ToTermJson(holder)));
    EV_RETURN_IF_ERROR(file->Sync());
    EV_RETURN_IF_ERROR(file->Close());
    return fs_.Link(temporary, TermPath(job_, number));
  }();
  (void)fs_.Remove(temporary);
  EV_RETURN_IF_ERROR(status);
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(TermsPath(job_)));
  return Term(fs_, job_, std::move(holder));
}

absl::StatusOr<Term> TakeTerm(FileSystem& fs, const std::string& job,
                              const TakeTermOptions& options) {
  absl::StatusOr<Term> term = TermTaker(fs, job, options).Run();
  if (term.ok() || absl::IsAlreadyExists(term.status()) || absl::IsCancelled(term.status())) {
    return term;
  }
  const absl::Status status =
      Annotate(term.status(), absl::StrCat("cannot take the job directory ", job));
  return absl::IsPermissionDenied(status) || absl::IsNotFound(status)
             ? WithExitCode(status, kExitConfiguration)
             : status;
}

}  // namespace everstep
