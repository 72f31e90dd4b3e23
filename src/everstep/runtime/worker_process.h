// runtime: WorkerProcess joins the parts of a native worker. No logic of its own: which parts, in
// which order.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/cluster/resolver.h"
#include "everstep/collective/endpoint.h"
#include "everstep/engine/engine.h"
#include "everstep/job/spec.h"
#include "everstep/membership/control.h"
#include "everstep/observe/console.h"
#include "everstep/runtime/lone_job.h"
#include "everstep/train/worker.h"
#include "everstep/trust/secret.h"

namespace everstep {

class WorkerProcess : public Worker {
 public:
  // One that an agent started: from TF_CONFIG and the EVERSTEP_ variables (job/README.md), all of
  // which must be there: it never trains alone because one was missing.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> OfAgent();
  // A job of its own: it makes a job directory, or goes on in one, and trains alone. `place`: as
  // ResolvePlace says it, without a coordinator.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Alone(const Place& place);
  ~WorkerProcess() override;

  // The job that it would go on with is done already.
  bool IsDone() const;

  const WorkerSettings& settings() const override { return settings_; }
  absl::StatusOr<Engine*> Join(std::unique_ptr<Learner> learner, Fingerprint fingerprint) override;
  absl::StatusOr<std::unique_ptr<BatchSource>> Open(const Dataset& data,
                                                    const BatchOptions& options) override;
  void ShowProgress(const Scalars& scalars) override;
  void Print(const std::string& line) override;
  const Clock& clock() const override;

  // Leaves the job as `outcome` says and returns the exit code of the process.
  int Finish(const absl::Status& outcome);

 private:
  explicit WorkerProcess(JobSecret secret);

  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Begin(
      std::unique_ptr<WorkerProcess> worker);
  absl::Status ReadCluster();
  absl::Status ReadJob();
  absl::Status StartAlone();
  absl::Status CheckJobDirectory() const;
  absl::Status CheckBaseline() const;
  absl::StatusOr<std::unique_ptr<ControlLink>> ConnectControl();
  Fingerprint Complete(Fingerprint fingerprint) const;
  absl::StatusOr<EndpointOptions> OptionsOfEndpoint() const;

  WorkerSettings settings_;
  JobSpec spec_;
  JobSecret secret_;
  std::optional<std::string> coordinator_;  // not there: alone
  std::string own_address_;                 // from TF_CONFIG; empty when alone
  Incarnation incarnation_ = 1;

  // In the order in which they need each other; destroyed from the last to the first.
  std::unique_ptr<LoneJob> lone_;     // alone only
  std::unique_ptr<Console> console_;  // alone only
  PhaseBoard phases_;
  Probe probe_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<ControlLink> control_;
  std::shared_ptr<DirectoryStore> store_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace everstep
