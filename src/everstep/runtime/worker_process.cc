// runtime: WorkerProcess.
#include "everstep/runtime/worker_process.h"

#include <signal.h>

#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/float_environment.h"
#include "everstep/base/status.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/env/process.h"
#include "everstep/env/signals.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"
#include "everstep/launch/version.h"
#include "everstep/learner/kernels_info.h"
#include "everstep/membership/lone_link.h"
#include "everstep/membership/worker_link.h"
#include "everstep/metrics/log.h"
#include "everstep/runtime/by_hand.h"

namespace everstep {
namespace {

absl::StatusOr<std::string> Required(const std::string& name) {
  auto value = GetEnvironment(name);
  if (value && !value->empty()) return *value;
  return absl::FailedPreconditionError(absl::StrCat(
      name,
      " is not set although EVERSTEP_INCARNATION is; start the program by `everstep run` or "
      "`everstep agent`, which set both, or by hand without either"));
}

}  // namespace

WorkerProcess::WorkerProcess(JobSecret secret) : secret_(std::move(secret)), phases_(RealClock()) {}

WorkerProcess::~WorkerProcess() { LeaveOnSignal(nullptr); }

bool WorkerProcess::IsDone() const { return lone_ != nullptr && lone_->is_finished(); }

const Clock& WorkerProcess::clock() const { return RealClock(); }

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::OfAgent() {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(JobSecret::Generate()));
  EV_RETURN_IF_ERROR(worker->ReadCluster());
  return Begin(std::move(worker));
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Alone(const Place& place) {
  if (!place.coordinator.empty() || place.NumTrainers() > 1) {
    return absl::InternalError(absl::StrCat("this process would train alone, but it is one of ",
                                            place.NumTrainers(), " by ", NameOf(place.source)));
  }
  EV_RETURN_IF_ERROR(CheckRole(place));
  for (const std::string& note : place.notes) std::fprintf(stderr, "everstep: %s\n", note.c_str());
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(JobSecret::Generate()));
  if (place.task.has_value()) worker->settings_.task = *place.task;
  worker->settings_.has_chief = worker->settings_.task.type == "chief";
  return Begin(std::move(worker));
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Begin(
    std::unique_ptr<WorkerProcess> worker) {
  EV_RETURN_IF_ERROR(worker->ReadJob());
  log::Level level = log::Level::kWarning;
  log::ParseLevel(worker->spec_.log_level, &level);
  log::Init(level, worker->settings_.task.ToString());
  EV_RETURN_IF_ERROR(worker->CheckBaseline());
  LeaveOnSignal(worker->probe_.leave_flag());
  IgnoreSignal(SIGXFSZ);  // a checkpoint that may not grow is one that fails
  SetFloatEnvironment();
  return worker;
}

absl::Status WorkerProcess::ReadCluster() {
  EV_ASSIGN_OR_RETURN(coordinator_, Required("EVERSTEP_COORDINATOR"));
  EV_ASSIGN_OR_RETURN(const std::string text, Required("TF_CONFIG"));
  EV_ASSIGN_OR_RETURN(std::optional<TfConfig> config, ReadTfConfig(text));
  if (!config || config->cluster.jobs.empty()) {
    return absl::FailedPreconditionError(
        "EVERSTEP_INCARNATION is set but TF_CONFIG names no cluster; start the program by "
        "`everstep run` or `everstep agent`, which set both");
  }
  settings_.task = *config->task;
  settings_.num_workers = config->NumTrainers();
  settings_.has_chief = config->cluster.NumTasks("chief") > 0;
  EV_ASSIGN_OR_RETURN(own_address_, config->cluster.Address(settings_.task));
  return absl::OkStatus();
}

absl::Status WorkerProcess::ReadJob() {
  EV_ASSIGN_OR_RETURN(spec_, JobFromEnvironment(settings_.num_workers, GetEnvironment));
  if (!coordinator_) {
    EV_RETURN_IF_ERROR(StartAlone());
  } else {
    EV_RETURN_IF_ERROR(CheckJobDirectory());
    EV_ASSIGN_OR_RETURN(const std::string path, Required("EVERSTEP_SECRET_FILE"));
    EV_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(RealFileSystem(), path));
    EV_ASSIGN_OR_RETURN(secret_, JobSecret::FromHex(text));
    EV_ASSIGN_OR_RETURN(const std::string incarnation, Required("EVERSTEP_INCARNATION"));
    if (!absl::SimpleAtoi(incarnation, &incarnation_)) {
      return absl::FailedPreconditionError(
          absl::StrCat("EVERSTEP_INCARNATION is '", incarnation, "', not a number"));
    }
  }
  settings_.num_replicas = spec_.replicas;
  settings_.seed = spec_.seed;
  settings_.threads_per_replica = spec_.threads_per_replica;
  settings_.checkpoint_every_steps = spec_.checkpoint_every_steps;
  return absl::OkStatus();
}

absl::Status WorkerProcess::StartAlone() {
  EV_ASSIGN_OR_RETURN(lone_, LoneJob::Begin(spec_, kVersion));
  spec_ = lone_->spec();
  spec_.workers = 1;
  if (lone_->is_finished()) return absl::OkStatus();
  console_ = std::make_unique<Console>(1, 2, RealClock());
  std::fprintf(stderr, "everstep %s: one worker, %d %s, seed %llu, job %s\n", kVersion,
               spec_.replicas, spec_.replicas == 1 ? "replica" : "replicas",
               static_cast<unsigned long long>(spec_.seed), spec_.directory.c_str());
  return absl::OkStatus();
}

// Checkpoints are written by all workers into one directory.
absl::Status WorkerProcess::CheckJobDirectory() const {
  const std::string token = GetEnvironment("EVERSTEP_JOB_TOKEN").value_or("");
  if (token.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> seen = ReadJobToken(RealFileSystem(), spec_.directory);
  if (seen.ok() && *seen == token) return absl::OkStatus();
  const std::string why =
      seen.ok() ? "that directory is another job's" : std::string(seen.status().message());
  return WithExitCode(
      absl::FailedPreconditionError(absl::StrCat(
          settings_.task.ToString(), " on host ", HostName(),
          " does not see the job directory of the coordinator at ", spec_.directory, ": ", why,
          "; all hosts must share it (say where it lies here by --job-dir of everstep agent)")),
      kExitConfiguration);
}

absl::Status WorkerProcess::CheckBaseline() const {
  if (spec_.cpu_baseline == "native") return absl::OkStatus();
  const std::string have = absl::AsciiStrToLower(CpuCapability());
  if (have == spec_.cpu_baseline) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the job's CPU baseline is ", spec_.cpu_baseline, " but this process computes with ", have,
      "; `everstep run` and `everstep agent` lower a process to the baseline before it starts"));
}

absl::StatusOr<std::unique_ptr<ControlLink>> WorkerProcess::ConnectControl() {
  if (!coordinator_) {
    return MakeLoneLink(spec_.replicas, lone_->term(),
                        [this](const WorkerMessage& message) { lone_->Hear(message); });
  }
  WorkerLinkOptions options{.address = *coordinator_, .credentials = {secret_, spec_.insecure}};
  options.phases = &phases_;
  options.waits = [this] { return probe_.Waits(); };
  options.scalars = [this] { return probe_.scalars(); };
  return ConnectWorker(std::move(options));
}

absl::StatusOr<EndpointOptions> WorkerProcess::OptionsOfEndpoint() const {
  EndpointOptions options;
  options.incarnation = incarnation_;
  options.first_port = spec_.port_range.first;
  options.last_port = spec_.port_range.last;
  options.lost_after = spec_.lost_after;
  // Alone nobody calls, and the one address of a TF_CONFIG may be of another network.
  if (!coordinator_) return options;
  EV_ASSIGN_OR_RETURN(const HostPort own, HostPort::Parse(own_address_));
  options.listen_host = own.host;
  options.preferred_port = own.port;
  // By hand the cluster may have an address that is another host's, which passes on to this one.
  if (const auto listen = GetEnvironment(kListenHostVariable); listen.has_value()) {
    options.listen_host = *listen;
    options.advertised_host = own.host;
  }
  return options;
}

Fingerprint WorkerProcess::Complete(Fingerprint fingerprint) const {
  fingerprint["version"] = kVersion;
  fingerprint["replicas"] = absl::StrCat(spec_.replicas);
  fingerprint["seed"] = absl::StrCat(spec_.seed);
  fingerprint["threads per replica"] = absl::StrCat(spec_.threads_per_replica);
  fingerprint["layout"] = absl::StrCat(absl::Hex(ModelFingerprint(learner_->layout())));
  fingerprint["torch"] = TorchVersion();
  fingerprint["CPU capability"] = CpuCapability();
  fingerprint["BLAS"] = BlasDescription();
  fingerprint["oneDNN"] = OneDnnDescription();
  return fingerprint;
}

absl::StatusOr<Engine*> WorkerProcess::Join(std::unique_ptr<Learner> learner,
                                            Fingerprint fingerprint) {
  if (engine_ != nullptr) {
    return absl::FailedPreconditionError(
        "this process has joined its job already, with another "
        "model; train one model a process");
  }
  learner_ = std::move(learner);
  EV_ASSIGN_OR_RETURN(const EndpointOptions of_endpoint, OptionsOfEndpoint());
  EV_ASSIGN_OR_RETURN(endpoint_, Endpoint::Make(secret_, of_endpoint));
  EV_ASSIGN_OR_RETURN(control_, ConnectControl());
  store_ = std::make_shared<DirectoryStore>(
      RealFileSystem(),
      DirectoryStoreOptions{CheckpointsPath(spec_.directory), spec_.keep_checkpoints,
                            spec_.keep_every_steps, spec_.restore_from, spec_.begin_from});
  EngineParts parts{learner_.get(), endpoint_.get(), control_.get(), store_,
                    &RealClock(),   &phases_,        &probe_};
  EngineOptions options;
  options.hello.task = settings_.task;
  options.hello.incarnation = incarnation_;
  options.hello.host = HostIdentity();
  options.hello.data_address = endpoint_->data_address();
  options.hello.fingerprint = Complete(std::move(fingerprint));
  options.num_replicas = spec_.replicas;
  options.seed = spec_.seed;
  options.checkpoint_interval = spec_.checkpoint_every;
  // Who asks for checkpoints by steps only gets them by steps only.
  if (spec_.checkpoint_every_steps > 0 && !spec_.checkpoint_every.has_value()) {
    options.checkpoint_interval = Duration(0);
  }
  EV_ASSIGN_OR_RETURN(engine_, Engine::Create(parts, std::move(options)));
  return engine_.get();
}

absl::StatusOr<std::unique_ptr<BatchSource>> WorkerProcess::Open(const Dataset& data,
                                                                 const BatchOptions& options) {
  EV_ASSIGN_OR_RETURN(std::unique_ptr<RecordBatchSource> source,
                      RecordBatchSource::Open(RealFileSystem(), RealClock(), data, options));
  return std::unique_ptr<BatchSource>(std::move(source));
}

void WorkerProcess::ShowProgress(const Scalars& s) {
  probe_.SetScalars(s);
  if (lone_ == nullptr) return;
  console_->ShowProgress(s, 1);
  lone_->ShowProgress(s, engine_->step());
  if (lone_->superseded()) probe_.TellToLeave();
}

void WorkerProcess::Print(const std::string& line) {
  if (console_ != nullptr) console_->ClearProgress();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int WorkerProcess::Finish(const absl::Status& outcome) {
  if (console_ != nullptr) console_->ClearProgress();
  std::fflush(stdout);
  const bool told = absl::IsCancelled(outcome) || (outcome.ok() && probe_.ToldToLeave());
  int code = ExitCodeFor(outcome);
  const std::string message(outcome.message());
  const bool stopped = engine_ != nullptr && !engine_->stop_reason().empty();
  if (!outcome.ok() && !stopped) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, message.c_str());
  }
  if (engine_ != nullptr) {
    const LeaveReason reason = outcome.ok() ? LeaveReason::kFinished
                               : told       ? LeaveReason::kToldToLeave
                                            : LeaveReason::kFailed;
    code = engine_->Leave(reason, code, message);
    log::Info("runtime", "leaves with code {}", code);
  } else if (told) {
    code = kExitToldToLeave;
  }
  engine_.reset();
  control_.reset();
  if (lone_ != nullptr) lone_->Finish(code, code == kExitDone ? "" : message);
  return code;
}

}  // namespace everstep
