// cli: being the agent of this host.
#include "everstep/cli/host.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/poll.h"
#include "everstep/env/port.h"

namespace everstep {
namespace {

class TerminalView : public AgentView {
 public:
  explicit TerminalView(Console* console) : console_(console) {}

  void Line(const Task& task, OutputStream stream, std::string_view line) override {
    console_->ProcessLine(task.ToString(), stream == OutputStream::kErr, line);
  }

  void ShowProgress(const Progress& progress) override {
    console_->ShowProgress(progress.scalars, progress.workers);
  }

  void Say(const std::string& text) override { console_->Say(absl::StrCat("everstep: ", text)); }

 private:
  Console* const console_;
};

std::string Indented(absl::string_view lines) {
  std::string text;
  for (absl::string_view line : absl::StrSplit(absl::StripTrailingAsciiWhitespace(lines), '\n')) {
    absl::StrAppend(&text, "  | ", line, "\n");
  }
  return text;
}

// The failure that the reason tells of, if it was on this host: the task named in it, else the
// first one seen.
const TaskFailure* FailureBehind(const AgentResult& result) {
  for (const TaskFailure& failure : result.failures) {
    if (absl::StrContains(result.reason, failure.task.ToString())) return &failure;
  }
  return result.failures.empty() ? nullptr : &result.failures.front();
}

}  // namespace

absl::Status CheckProgram(const std::vector<std::string>& program) {
  const std::string path = GetEnvironment("PATH").value_or("/bin:/usr/bin");
  return WithExitCode(FindProgram(program[0], path).status(), kExitConfiguration);
}

absl::StatusOr<AgentResult> BeAgent(const HostOptions& options, const GuardedProcess& self,
                                    Console* console) {
  EV_ASSIGN_OR_RETURN(
      const PortReservation ports,
      ReservePorts(options.port_range.first, options.port_range.last, options.slots));
  AgentOptions agent_options;
  agent_options.program = options.program;
  agent_options.context = {CurrentEnvironment(), options.coordinator, options.secret_file,
                           options.job_directory, ProcessorCapability()};
  agent_options.grace = options.grace;
  agent_options.signals = self.signals;
  agent_options.parent = self.guardian;
  agent_options.coordinator = options.coordinator_process;
  TerminalView view(console);
  Agent agent(std::move(agent_options), &view);

  Register me;
  me.agent = absl::StrCat(HostName(), "/", OwnPid(), "/", absl::Hex(RandomBits64()));
  me.host = HostIdentity();
  me.address = options.address;
  me.slots = options.slots;
  me.ports = ports.ports();
  me.version = kVersion;
  AgentLinkOptions link_options{options.coordinator, options.credentials, std::move(me),
                                options.connect_timeout, [&agent] { agent.Wake(); }};
  EV_ASSIGN_OR_RETURN(std::unique_ptr<AgentLink> link, ConnectAgent(std::move(link_options)));
  return agent.Run(*link);
}

void SayOutcome(const AgentResult& result, const std::string& job_directory, Duration took,
                Console* console) {
  console->ClearProgress();
  std::string text;
  if (result.code == kExitDone) {
    absl::StrAppend(&text, "everstep: done in ", std::round(ToSeconds(took) * 10) / 10, " s\n");
  } else {
    // The reason may have the last lines of whoever caused it behind its first line.
    const std::vector<absl::string_view> parts =
        absl::StrSplit(result.reason, absl::MaxSplits("; last lines:\n", 1));
    absl::StrAppend(&text,
                    "everstep: ", result.code == kExitToldToLeave ? "stopped" : "the job failed",
                    " (exit code ", result.code, "): ", parts[0], "\n");
    const TaskFailure* failure = result.code == kExitToldToLeave ? nullptr : FailureBehind(result);
    if (parts.size() > 1) {
      absl::StrAppend(&text, Indented(parts[1]));
    } else if (failure != nullptr && !failure->tail.empty()) {
      absl::StrAppend(&text, "  last lines of ", failure->task.ToString(), ":\n",
                      Indented(failure->tail));
    }
    if (failure != nullptr && !failure->log_path.empty()) {
      absl::StrAppend(&text, "  log  ", failure->log_path, "\n");
    }
  }
  if (!job_directory.empty()) absl::StrAppend(&text, "  job  ", job_directory, "\n");
  console->Say(text);
}

}  // namespace everstep
