// launch: being the agent of this host.
#include "everstep/launch/host.h"

#include <functional>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/poll.h"
#include "everstep/env/port.h"
#include "everstep/env/terminal.h"
#include "everstep/job/directory.h"
#include "everstep/job/incident_log.h"
#include "everstep/launch/hint.h"
#include "everstep/launch/version.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

class TerminalView : public AgentView {
 public:
  // `was_told`: its place in the cluster.
  TerminalView(Console* console, bool in_its_place, bool was_told)
      : console_(console), in_its_place_(in_its_place), was_told_(was_told) {}

  void Begins(const Spawn& spawn) override {
    const bool chief = spawn.cluster.NumTasks("chief") > 0;
    first_trainer_ = spawn.task == Task{chief ? "chief" : "worker", 0};
    // Who was not told its place before hears it now.
    if (in_its_place_ && !was_told_) {
      Say(absl::StrCat("this process is ", spawn.task.ToString()));
    }
    was_told_ = true;
    if (on_begin) on_begin(spawn);
  }

  void Line(const Task& task, OutputStream stream, std::string_view line) override {
    console_->ProcessLine(in_its_place_ ? "" : task.ToString(), stream == OutputStream::kErr, line);
  }

  bool WantsRaw(OutputStream stream) const override {
    return !IsTerminal(stream == OutputStream::kErr ? 2 : 1);
  }

  void ShowProgress(const Progress& progress) override {
    if (in_its_place_ && !first_trainer_) return;
    console_->ShowProgress(progress.scalars, progress.workers);
  }

  void Say(const std::string& text) override { console_->Say(absl::StrCat("everstep: ", text)); }

  std::function<void(const Spawn&)> on_begin;

 private:
  Console* const console_;
  const bool in_its_place_;
  bool was_told_;
  bool first_trainer_ = false;
};

// Who came by a join secret has the job's own from its directory now.
void ProveByJobSecret(const Spawn& spawn, AgentLink& link) {
  const auto directory = spawn.settings.find("EVERSTEP_JOB_DIR");
  if (directory == spawn.settings.end()) return;
  const auto text = ReadWholeFile(RealFileSystem(), SecretPath(directory->second));
  if (!text.ok()) return;  // its process will say so
  const absl::StatusOr<JobSecret> secret = JobSecret::FromHex(*text);
  if (secret.ok()) link.ProveBy(*secret);
}

std::string Indented(absl::string_view lines) {
  std::string text;
  for (absl::string_view line : absl::StrSplit(absl::StripTrailingAsciiWhitespace(lines), '\n')) {
    absl::StrAppend(&text, "  | ", line, "\n");
  }
  return text;
}

// The first line of the reason; behind it may be the last lines of whoever caused it.
std::vector<absl::string_view> PartsOf(const std::string& reason) {
  return absl::StrSplit(reason, absl::MaxSplits("; last lines:\n", 1));
}

// The task that the reason's first line names first.
std::optional<Task> TaskNamedIn(const std::string& reason) {
  for (absl::string_view word : absl::StrSplit(PartsOf(reason)[0], absl::ByAnyChar(" ,;()\n"))) {
    const absl::StatusOr<Task> task = Task::Parse(std::string(word));
    if (!task.ok()) continue;
    for (const char* type : {"chief", "worker", "ps", "evaluator"}) {  // not "localhost:29700"
      if (task->type == type) return *task;
    }
  }
  return std::nullopt;
}

// The failure that the reason tells of, if it was on this host: of a task that failed more than
// once the last one.
const TaskFailure* FailureBehind(const AgentResult& result) {
  const std::optional<Task> named = TaskNamedIn(result.reason);
  const TaskFailure* behind = nullptr;
  for (const TaskFailure& failure : result.failures) {
    if (!named.has_value()) return &failure;
    if (failure.task == *named) behind = &failure;
  }
  return behind;
}

}  // namespace

absl::Status CheckProgram(const std::vector<std::string>& program) {
  const std::string path = GetEnvironment("PATH").value_or("/bin:/usr/bin");
  return WithExitCode(FindProgram(program[0], path).status(), kExitConfiguration);
}

absl::StatusOr<AgentResult> BeAgent(const HostOptions& options, const GuardedProcess& self,
                                    Console* console) {
  std::optional<PortReservation> ports;
  std::vector<int> numbers;
  if (options.claim.has_value() && options.claim->port != 0) {
    numbers = {options.claim->port};
  } else {
    EV_ASSIGN_OR_RETURN(
        ports, ReservePorts(options.port_range.first, options.port_range.last, options.slots));
    numbers = ports->ports();
  }
  AgentOptions agent_options;
  agent_options.program = options.program;
  agent_options.context = {CurrentEnvironment(), options.coordinator, options.secret_file,
                           options.job_directory, ProcessorCapability()};
  agent_options.context.native = options.in_its_place;
  agent_options.grace = options.grace;
  agent_options.away_limit_at_start = options.join_deadline;
  // Its file may have been replaced since; the job goes on with what it began with.
  if (options.in_its_place) agent_options.executable = "/proc/self/exe";
  // Whoever kills a process that was started by hand means the task that it is.
  if (options.in_its_place) agent_options.orphan_grace = Duration::zero();
  agent_options.signals = self.signals;
  agent_options.parent = self.guardian;
  agent_options.coordinator = options.coordinator_process;
  if (ports.has_value()) agent_options.ports = &*ports;
  TerminalView view(console, options.in_its_place, options.claim.has_value());
  Agent agent(std::move(agent_options), &view);

  Register me;
  me.agent = absl::StrCat(HostName(), "/", OwnPid(), "/", absl::Hex(RandomBits64()));
  me.host = HostIdentity();
  me.address = options.address;
  me.slots = options.slots;
  me.ports = std::move(numbers);
  me.version = kVersion;
  me.pid = self.guardian;
  if (options.claim.has_value()) {
    me.task = options.claim->task;
    me.cluster = options.claim->cluster;
  }
  AgentLinkOptions link_options{options.coordinator, options.credentials, std::move(me),
                                options.connect_timeout, [&agent] { agent.Wake(); }};
  EV_ASSIGN_OR_RETURN(std::unique_ptr<AgentLink> link, ConnectAgent(std::move(link_options)));
  if (options.secret_file.empty()) {
    view.on_begin = [&link](const Spawn& spawn) { ProveByJobSecret(spawn, *link); };
  }
  return agent.Run(*link);
}

std::string LogNote(const AgentResult& result, const std::string& job_directory, FileSystem& fs) {
  std::optional<Task> task = TaskNamedIn(result.reason);
  if (!task.has_value() && !result.failures.empty()) task = result.failures.front().task;
  // Where no task ran the job may not have begun.
  if (!task.has_value() || (result.logs.empty() && result.failures.empty())) return "";
  const std::string name = task->ToString();
  const auto here = result.logs.find(*task);
  if (here != result.logs.end()) {
    if (here->second.empty()) return "";
    return fs.Exists(here->second) ? absl::StrCat("  log  ", here->second, "\n")
                                   : absl::StrCat("  log  none: ", name, " printed nothing\n");
  }
  if (result.failures.empty() && !result.from_coordinator) return "";
  for (const TaskFailure& failure : result.failures) {
    if (failure.task == *task) return "";  // it never ran
  }
  const std::string directory = job_directory.empty() ? "" : LogDirectory(job_directory, *task);
  return absl::StrCat("  log  on the host of ", name,
                      fs.IsDirectory(directory) ? absl::StrCat("; also here in ", directory)
                                                : ", in its job directory",
                      "\n");
}

std::string StacksNote(const std::string& job_directory, FileSystem& fs) {
  if (job_directory.empty()) return "";
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, IncidentsPath(job_directory));
  if (!text.ok()) return "";
  const IncidentLog log = ParseIncidents(*text);
  std::string stacks;
  for (const JobRecord& record : log.records) {
    // The last one that something was done about; a run that began anew has none yet.
    if (record.kind == record_kind::kRunStarted) stacks.clear();
    if (record.incident != 0 && !record.action.empty()) stacks = record.stacks;
  }
  return stacks.empty() ? "" : absl::StrCat("  stacks  ", stacks, "\n");
}

void SayOutcome(const AgentResult& result, const std::string& job_directory, Duration took,
                Console* console) {
  console->ClearProgress();
  std::string text;
  if (result.code == kExitDone) {
    absl::StrAppend(&text, absl::StrFormat("everstep: done in %.1f s\n", ToSeconds(took)));
  } else {
    const std::vector<absl::string_view> parts = PartsOf(result.reason);
    // It was turned away, and the job goes on.
    const bool refused =
        result.code == kExitConfiguration && result.from_coordinator && result.logs.empty();
    absl::StrAppend(&text, "everstep: ",
                    result.code == kExitToldToLeave ? "stopped"
                    : refused                       ? "refused"
                                                    : "the job failed",
                    " (exit code ", result.code, "): ", parts[0], "\n");
    const TaskFailure* failure = result.code == kExitToldToLeave ? nullptr : FailureBehind(result);
    std::string last_lines(parts.size() > 1 ? parts[1] : "");
    if (last_lines.empty() && failure != nullptr) last_lines = failure->tail;
    if (parts.size() > 1) {
      absl::StrAppend(&text, Indented(parts[1]));
    } else if (failure != nullptr && !failure->tail.empty()) {
      absl::StrAppend(&text, "  last lines of ", failure->task.ToString(), ":\n",
                      Indented(failure->tail));
    }
    if (result.code != kExitToldToLeave) {
      absl::StrAppend(&text, LogNote(result, job_directory, RealFileSystem()),
                      StacksNote(job_directory, RealFileSystem()));
      const std::string hint = HintOnFailure(last_lines);
      if (!hint.empty()) absl::StrAppend(&text, "  hint  ", hint, "\n");
    }
  }
  if (!job_directory.empty()) absl::StrAppend(&text, "  job  ", job_directory, "\n");
  console->Say(text);
}

}  // namespace everstep
