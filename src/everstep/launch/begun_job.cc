// launch: beginning a job.
#include "everstep/launch/begun_job.h"

#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/process.h"

namespace everstep {
namespace {

constexpr Duration kCoordinatorEnd = std::chrono::seconds(4);

}  // namespace

absl::StatusOr<BegunJob> BeginJob(
    const CoordinatorPlan& plan,
    const std::function<CoordinatorCommand(const std::string& job)>& command,
    const std::optional<JobDirectory>& resumed, const NewJob& made, SignalQueue* signals) {
  std::optional<JobDirectory> directory = resumed;
  if (!directory.has_value()) {
    EV_ASSIGN_OR_RETURN(directory, JobDirectory::Create(RealFileSystem(), made));
  }
  absl::StatusOr<CoordinatorChild> coordinator =
      StartCoordinator(plan, command(directory->path()), *directory, signals);
  absl::StatusOr<std::string> hex = std::string();
  if (coordinator.ok()) hex = ReadWholeFile(RealFileSystem(), SecretPath(directory->path()));
  absl::StatusOr<JobSecret> secret = hex.ok() ? JobSecret::FromHex(*hex) : hex.status();
  if (coordinator.ok() && secret.ok()) {
    return BegunJob{*std::move(directory), *std::move(coordinator), *std::move(secret)};
  }
  KillAllChildren(After(RealClock(), kCoordinatorEnd));
  // Another run that has it already may go on.
  if (!absl::IsAlreadyExists(coordinator.status())) directory->Abandon();
  return coordinator.ok() ? secret.status() : coordinator.status();
}

void EndJob(BegunJob* job, const absl::Status& part, bool told) {
  // The coordinator goes when the other hosts' agents know as well.
  if (told) (void)job->coordinator.process.Wait(After(RealClock(), kCoordinatorEnd));
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  if (!part.ok()) return job->directory.Abandon();
  job->directory.RemoveSecret(job->secret.ToHexForFile());
}

}  // namespace everstep
