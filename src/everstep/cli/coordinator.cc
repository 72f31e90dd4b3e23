// cli: everstep coordinator: the process that decides the views of a job. `everstep run` starts
// one; by hand it serves hosts that bring agents only.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/pipe.h"
#include "everstep/job/directory.h"
#include "everstep/launch/coordinate.h"
#include "everstep/launch/coordinator_child.h"
#include "everstep/launch/job_choice.h"

namespace everstep {
namespace {

constexpr char kExamples[] =
    R"(  everstep coordinator -n 4 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a
  everstep coordinator --resume /shared/a --listen 10.0.0.1:29700 --insecure
)";

struct CoordinatorArguments {
  std::map<std::string, std::string> flags;
  std::string listen = absl::StrCat("127.0.0.1:", kDefaultControlPort);
  std::string resume;
  std::string resolved;     // descriptor to read the run from, whose job directory is there already
  std::string announce_fd;  // where to say the port, or why there is none
};

int DescriptorIn(const std::string& text) {
  int fd = -1;
  return absl::SimpleAtoi(text, &fd) ? fd : -1;
}

absl::StatusOr<CoordinatorOrder> OrderOf(const CoordinatorArguments& arguments) {
  if (const int fd = DescriptorIn(arguments.resolved); fd >= 0) return ReadOrder(fd);
  EV_ASSIGN_OR_RETURN(JobChoice job, ChooseJob(arguments.resume, arguments.flags, {}));
  if (job.resumed.has_value()) {
    return CoordinatorOrder{*std::move(job.resumed), arguments.listen};
  }
  EV_ASSIGN_OR_RETURN(
      JobDirectory made,
      JobDirectory::Create(RealFileSystem(), {job.spec, {"coordinator"}, kVersion, ""}));
  return CoordinatorOrder{std::move(made), arguments.listen};
}

void SayWhere(const CoordinatorOrder& order, int port) {
  const JobSpec& spec = order.job.spec();
  const std::string host = order.listen.substr(0, order.listen.rfind(':'));
  WriteAll(
      2,
      absl::StrCat(
          "everstep ", kVersion, ": coordinator on ", host, ":", port, ", job ", spec.directory,
          "\n  everstep agent --coordinator ", host, ":", port, " --slots K --job-dir ",
          ShellQuoted({spec.directory}), spec.insecure ? " --insecure" : "",
          " -- PROGRAM [ARGUMENTS]\n  or, a program made with Everstep: EVERSTEP_COORDINATOR=",
          host, ":", port, spec.insecure ? " EVERSTEP_INSECURE=1" : "", " PROGRAM [ARGUMENTS]\n"));
}

}  // namespace

void AddCoordinator(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<CoordinatorArguments>();
  CLI::App& verb = AddVerb(root, invocation,
                           {"coordinator", "Coordinate a job to which all hosts come as agents",
                            "Jobs", kExamples, false, nullptr, kExitCodes},
                           [arguments] {
                             return RunCoordinator([&] { return OrderOf(*arguments); },
                                                   DescriptorIn(arguments->announce_fd), SayWhere);
                           });
  AddText(verb, "listen", "HOST:PORT", "where to listen (default 127.0.0.1:29700)",
          &arguments->listen);
  AddText(verb, "resume", "DIR", kResumeHelp, &arguments->resume);
  std::vector<std::string> names;
  for (const JobOption& option : JobOptionTable()) {
    if (std::string_view(option.name) != "port") names.push_back(option.name);  // --listen has it
  }
  AddJobOptions(verb, names, &arguments->flags);
  // For `everstep run`.
  verb.add_option("--resolved", arguments->resolved, "")->group("");
  verb.add_option("--announce-fd", arguments->announce_fd, "")->group("");
}

}  // namespace everstep
