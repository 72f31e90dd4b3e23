// membership: messages as plain values and as the protos of the wire.
#include "everstep/membership/translate.h"

namespace everstep {
namespace {

// ---- parts ----

void Put(const ViewId& from, wire::ViewId* to) {
  to->set_term(from.term);
  to->set_id(from.id);
}
ViewId Get(const wire::ViewId& from) { return {from.term(), from.id()}; }

void Put(const Task& from, wire::Task* to) {
  to->set_type(from.type);
  to->set_index(from.index);
}
Task Get(const wire::Task& from) { return {from.type(), from.index()}; }

void Put(const View& from, wire::View* to) {
  Put(from.id, to->mutable_id());
  to->set_num_replicas(from.num_replicas);
  to->set_committer(from.committer);
  for (const Member& member : from.members) {
    wire::Member* m = to->add_members();
    Put(member.task, m->mutable_task());
    m->set_incarnation(member.incarnation);
    m->set_host(member.host);
    m->set_data_address(member.data_address);
    m->set_replica_begin(member.replica_begin);
    m->set_replica_end(member.replica_end);
  }
}
View Get(const wire::View& from) {
  View view;
  view.id = Get(from.id());
  view.num_replicas = from.num_replicas();
  view.committer = from.committer();
  for (const wire::Member& m : from.members()) {
    view.members.push_back({Get(m.task()), m.incarnation(), m.host(), m.data_address(),
                            m.replica_begin(), m.replica_end()});
  }
  return view;
}

void Put(const Scalars& from, wire::Scalars* to) {
  to->set_total_steps(from.total_steps);
  to->set_epoch(from.epoch);
  to->set_epochs(from.epochs);
  to->set_step_in_epoch(from.step_in_epoch);
  to->set_steps_per_epoch(from.steps_per_epoch);
  to->set_examples_per_second(from.examples_per_second);
  for (const auto& [name, value] : from.values) {
    wire::Scalar* scalar = to->add_values();
    scalar->set_name(name);
    scalar->set_value(value);
  }
}
Scalars Get(const wire::Scalars& from) {
  Scalars to;
  to.total_steps = from.total_steps();
  to.epoch = from.epoch();
  to.epochs = from.epochs();
  to.step_in_epoch = from.step_in_epoch();
  to.steps_per_epoch = from.steps_per_epoch();
  to.examples_per_second = from.examples_per_second();
  for (const wire::Scalar& s : from.values()) to.values.emplace_back(s.name(), s.value());
  return to;
}

template <typename Texts>
void PutTexts(const std::map<std::string, std::string>& from, Texts* to) {
  for (const auto& [name, value] : from) {
    wire::Text* text = to->Add();
    text->set_name(name);
    text->set_value(value);
  }
}
template <typename Texts>
std::map<std::string, std::string> GetTexts(const Texts& from) {
  std::map<std::string, std::string> to;
  for (const wire::Text& text : from) to[text.name()] = text.value();
  return to;
}

// ---- worker to coordinator ----

void Put(const Hello& from, wire::FromWorker* to) {
  wire::Hello* h = to->mutable_hello();
  Put(from.task, h->mutable_task());
  h->set_incarnation(from.incarnation);
  h->set_host(from.host);
  h->set_data_address(from.data_address);
  PutTexts(from.fingerprint, h->mutable_fingerprint());
  Put(from.view, h->mutable_view());
  h->set_history(from.history);
  h->set_step(from.step);
  h->set_digest(from.digest);
}
Hello Get(const wire::Hello& h) {
  return {Get(h.task()), h.incarnation(), h.host(), h.data_address(), GetTexts(h.fingerprint()),
          Get(h.view()), h.history(),     h.step(), h.digest()};
}

void Put(const Beat& from, wire::FromWorker* to) {
  wire::Beat* b = to->mutable_beat();
  Put(from.view, b->mutable_view());
  b->set_step(from.step);
  b->set_phase(from.phase);
  b->set_in_phase_ns(from.in_phase.count());
  for (int rank : from.waits) b->add_waits(rank);
  Put(from.scalars, b->mutable_scalars());
}
Beat Get(const wire::Beat& b) {
  return {Get(b.view()),
          b.step(),
          b.phase(),
          Duration(b.in_phase_ns()),
          std::vector<int>(b.waits().begin(), b.waits().end()),
          Get(b.scalars())};
}

void Put(const LinkLost& from, wire::FromWorker* to) {
  wire::LinkLost* l = to->mutable_link_lost();
  Put(from.view, l->mutable_view());
  l->set_peer(from.peer);
  l->set_why(from.why);
}

void Put(const Closed& from, wire::FromWorker* to) {
  wire::Closed* c = to->mutable_closed();
  Put(from.view, c->mutable_view());
  c->set_history(from.history);
  c->set_step(from.step);
  c->set_digest(from.digest);
}

void Put(const Synced& from, wire::FromWorker* to) {
  wire::Synced* s = to->mutable_synced();
  Put(from.view, s->mutable_view());
  s->set_step(from.step);
  s->set_digest(from.digest);
}

wire::Leaving::Reason ReasonOf(LeaveReason reason) {
  switch (reason) {
    case LeaveReason::kFinished:
      return wire::Leaving::FINISHED;
    case LeaveReason::kToldToLeave:
      return wire::Leaving::TOLD_TO_LEAVE;
    case LeaveReason::kFailed:
      break;
  }
  return wire::Leaving::FAILED;
}
LeaveReason ReasonOf(wire::Leaving::Reason reason) {
  if (reason == wire::Leaving::FINISHED) return LeaveReason::kFinished;
  if (reason == wire::Leaving::TOLD_TO_LEAVE) return LeaveReason::kToldToLeave;
  return LeaveReason::kFailed;
}

void Put(const Leaving& from, wire::FromWorker* to) {
  wire::Leaving* l = to->mutable_leaving();
  l->set_reason(ReasonOf(from.reason));
  Put(from.view, l->mutable_view());
  l->set_step(from.step);
  l->set_digest(from.digest);
  l->set_exit_code(from.exit_code);
  l->set_message(from.message);
}
Leaving Get(const wire::Leaving& l) {
  return {ReasonOf(l.reason()), Get(l.view()), l.step(), l.digest(), l.exit_code(), l.message()};
}

void Put(const CheckpointCommitted& from, wire::FromWorker* to) {
  wire::CheckpointCommitted* c = to->mutable_checkpoint_committed();
  Put(from.view, c->mutable_view());
  c->set_history(from.history);
  c->set_step(from.step);
  c->set_path(from.path);
  c->set_bytes(from.bytes);
  c->set_took_ns(from.took.count());
}
CheckpointCommitted Get(const wire::CheckpointCommitted& c) {
  return {Get(c.view()), c.history(), c.step(), c.path(), c.bytes(), Duration(c.took_ns())};
}

void Put(const Note& from, wire::Note* n) {
  n->set_kind(from.kind);
  n->set_step(from.step);
  n->set_text(from.text);
}
void Put(const Note& from, wire::FromWorker* to) { Put(from, to->mutable_note()); }
Note Get(const wire::Note& n) { return {n.kind(), n.step(), n.text()}; }

// ---- coordinator to worker ----

void Put(const Welcome& from, wire::ToWorker* to) { to->mutable_welcome()->set_term(from.term); }
void Put(const Close& from, wire::ToWorker* to) {
  Put(from.view, to->mutable_close()->mutable_view());
  to->mutable_close()->set_reason(from.reason);
}
void Put(const Prepare& from, wire::ToWorker* to) {
  Put(from.view, to->mutable_prepare()->mutable_view());
  wire::StateOrigin* o = to->mutable_prepare()->mutable_origin();
  o->set_history(from.origin.history);
  o->set_step(from.origin.step);
  o->set_digest(from.origin.digest);
  o->set_donor(from.origin.donor);
}
Prepare Get(const wire::Prepare& p) {
  const wire::StateOrigin& o = p.origin();
  return {Get(p.view()), {o.history(), o.step(), o.digest(), o.donor()}};
}
void Put(const Commit& from, wire::ToWorker* to) {
  Put(from.view, to->mutable_commit()->mutable_view());
}
void Put(const Stop& from, wire::ToWorker* to) {
  wire::Stop* s = to->mutable_stop();
  s->set_code(from.code);
  s->set_grace_ns(from.grace.count());
  s->set_reason(from.reason);
}

// ---- agent to coordinator ----

void Put(const Register& from, wire::FromAgent* to) {
  wire::Register* r = to->mutable_register_();
  r->set_agent(from.agent);
  r->set_host(from.host);
  r->set_address(from.address);
  r->set_slots(from.slots);
  for (int port : from.ports) r->add_ports(port);
  r->set_version(from.version);
}
Register Get(const wire::Register& r) {
  return {r.agent(),
          r.host(),
          r.address(),
          r.slots(),
          std::vector<int>(r.ports().begin(), r.ports().end()),
          r.version()};
}

void Put(const Exited& from, wire::FromAgent* to) {
  wire::Exited* e = to->mutable_exited();
  Put(from.task, e->mutable_task());
  e->set_incarnation(from.incarnation);
  e->set_wait_status(from.wait_status);
  e->set_tail(from.tail);
  e->set_oom(from.oom);
  e->set_log(from.log);
}

void Put(const StopRequest& from, wire::FromAgent* to) {
  to->mutable_stop_request()->set_reason(from.reason);
}

void Put(const Vitals& from, wire::FromAgent* to) {
  wire::Vitals* v = to->mutable_vitals();
  v->set_incarnation(from.incarnation);
  v->set_idle_ns(from.idle.count());
  v->set_idle_limit_ns(from.idle_limit.count());
  v->set_stopped_ns(from.stopped.count());
  v->set_stopped_process(from.stopped_process);
  v->set_beats(from.beats);
  v->set_beat_age_ns(from.beat_age.count());
  v->set_beat_limit_ns(from.beat_limit.count());
  v->set_step(from.step);
  v->set_phase(from.phase);
  v->set_wrote(from.wrote);
  v->set_cpu(from.cpu);
  v->set_memory(from.memory);
  v->set_seen(from.seen);
}
Vitals Get(const wire::Vitals& v) {
  Vitals to;
  to.incarnation = v.incarnation();
  to.idle = Duration(v.idle_ns());
  to.idle_limit = Duration(v.idle_limit_ns());
  to.stopped = Duration(v.stopped_ns());
  to.stopped_process = v.stopped_process();
  to.beats = v.beats();
  to.beat_age = Duration(v.beat_age_ns());
  to.beat_limit = Duration(v.beat_limit_ns());
  to.step = v.step();
  to.phase = v.phase();
  to.wrote = v.wrote();
  to.cpu = v.cpu();
  to.memory = v.memory();
  to.seen = v.seen();
  return to;
}

void Put(const CheckpointSeen& from, wire::FromAgent* to) {
  wire::CheckpointSeen* c = to->mutable_checkpoint_seen();
  c->set_incarnation(from.incarnation);
  c->set_path(from.path);
  c->set_age_ns(from.age.count());
}

void Put(const Stacks& from, wire::FromAgent* to) {
  wire::Stacks* s = to->mutable_stacks();
  s->set_incarnation(from.incarnation);
  s->set_text(from.text);
  s->set_path(from.path);
}

void Put(const Ports& from, wire::FromAgent* to) {
  for (int port : from.ports) to->mutable_ports()->add_ports(port);
}

void Put(const Note& from, wire::FromAgent* to) { Put(from, to->mutable_note()); }

// ---- coordinator to agent ----

void Put(const Spawn& from, wire::ToAgent* to) {
  wire::Spawn* s = to->mutable_spawn();
  Put(from.task, s->mutable_task());
  s->set_incarnation(from.incarnation);
  for (const auto& [type, addresses] : from.cluster.jobs) {
    wire::Addresses* a = s->add_cluster();
    a->set_type(type);
    for (const std::string& address : addresses) a->add_address(address);
  }
  PutTexts(from.settings, s->mutable_settings());
  s->set_local_rank(from.local_rank);
  s->set_local_size(from.local_size);
}
Spawn Get(const wire::Spawn& s) {
  Spawn to;
  to.task = Get(s.task());
  to.incarnation = s.incarnation();
  for (const wire::Addresses& a : s.cluster()) {
    to.cluster.jobs[a.type()].assign(a.address().begin(), a.address().end());
  }
  to.settings = GetTexts(s.settings());
  to.local_rank = s.local_rank();
  to.local_size = s.local_size();
  return to;
}

void Put(const TakeStacks& from, wire::ToAgent* to) {
  to->mutable_take_stacks()->set_incarnation(from.incarnation);
}

void Put(const Kill& from, wire::ToAgent* to) {
  to->mutable_kill()->set_incarnation(from.incarnation);
  to->mutable_kill()->set_grace_ns(from.grace.count());
}
void Put(const Progress& from, wire::ToAgent* to) {
  wire::Progress* p = to->mutable_progress();
  p->set_step(from.step);
  p->set_workers(from.workers);
  Put(from.scalars, p->mutable_scalars());
}
void Put(const Notice& from, wire::ToAgent* to) { to->mutable_notice()->set_text(from.text); }
void Put(const JobEnded& from, wire::ToAgent* to) {
  to->mutable_job_ended()->set_code(from.code);
  to->mutable_job_ended()->set_reason(from.reason);
}

template <typename Proto, typename Variant>
Proto Translate(const Variant& variant) {
  Proto proto;
  std::visit([&](const auto& message) { Put(message, &proto); }, variant);
  return proto;
}

}  // namespace

wire::FromWorker ToProto(const WorkerMessage& message) {
  return Translate<wire::FromWorker>(message);
}
wire::ToWorker ToProto(const WorkerOrder& order) { return Translate<wire::ToWorker>(order); }
wire::FromAgent ToProto(const AgentMessage& message) { return Translate<wire::FromAgent>(message); }
wire::ToAgent ToProto(const AgentOrder& order) { return Translate<wire::ToAgent>(order); }

std::optional<WorkerMessage> FromProto(const wire::FromWorker& proto) {
  switch (proto.kind_case()) {
    case wire::FromWorker::kHello:
      return Get(proto.hello());
    case wire::FromWorker::kBeat:
      return Get(proto.beat());
    case wire::FromWorker::kLinkLost: {
      const wire::LinkLost& l = proto.link_lost();
      return LinkLost{Get(l.view()), l.peer(), l.why()};
    }
    case wire::FromWorker::kClosed: {
      const wire::Closed& c = proto.closed();
      return Closed{Get(c.view()), c.history(), c.step(), c.digest()};
    }
    case wire::FromWorker::kSynced: {
      const wire::Synced& s = proto.synced();
      return Synced{Get(s.view()), s.step(), s.digest()};
    }
    case wire::FromWorker::kLeaving:
      return Get(proto.leaving());
    case wire::FromWorker::kCheckpointCommitted:
      return Get(proto.checkpoint_committed());
    case wire::FromWorker::kNote:
      return Get(proto.note());
    default:
      return std::nullopt;
  }
}

std::optional<WorkerOrder> FromProto(const wire::ToWorker& proto) {
  switch (proto.kind_case()) {
    case wire::ToWorker::kWelcome:
      return Welcome{proto.welcome().term()};
    case wire::ToWorker::kClose:
      return Close{Get(proto.close().view()), proto.close().reason()};
    case wire::ToWorker::kPrepare:
      return Get(proto.prepare());
    case wire::ToWorker::kCommit:
      return Commit{Get(proto.commit().view())};
    case wire::ToWorker::kStop: {
      const wire::Stop& s = proto.stop();
      return Stop{s.code(), Duration(s.grace_ns()), s.reason()};
    }
    default:
      return std::nullopt;
  }
}

std::optional<AgentMessage> FromProto(const wire::FromAgent& proto) {
  switch (proto.kind_case()) {
    case wire::FromAgent::kRegister:
      return Get(proto.register_());
    case wire::FromAgent::kExited: {
      const wire::Exited& e = proto.exited();
      return Exited{Get(e.task()), e.incarnation(), e.wait_status(), e.tail(), e.oom(), e.log()};
    }
    case wire::FromAgent::kStopRequest:
      return StopRequest{proto.stop_request().reason()};
    case wire::FromAgent::kVitals:
      return Get(proto.vitals());
    case wire::FromAgent::kCheckpointSeen: {
      const wire::CheckpointSeen& c = proto.checkpoint_seen();
      return CheckpointSeen{c.incarnation(), c.path(), Duration(c.age_ns())};
    }
    case wire::FromAgent::kStacks: {
      const wire::Stacks& s = proto.stacks();
      return Stacks{s.incarnation(), s.text(), s.path()};
    }
    case wire::FromAgent::kPorts:
      return Ports{{proto.ports().ports().begin(), proto.ports().ports().end()}};
    case wire::FromAgent::kNote:
      return Get(proto.note());
    default:
      return std::nullopt;
  }
}

std::optional<AgentOrder> FromProto(const wire::ToAgent& proto) {
  switch (proto.kind_case()) {
    case wire::ToAgent::kSpawn:
      return Get(proto.spawn());
    case wire::ToAgent::kKill:
      return Kill{proto.kill().incarnation(), Duration(proto.kill().grace_ns())};
    case wire::ToAgent::kTakeStacks:
      return TakeStacks{proto.take_stacks().incarnation()};
    case wire::ToAgent::kProgress: {
      const wire::Progress& p = proto.progress();
      return Progress{p.step(), p.workers(), Get(p.scalars())};
    }
    case wire::ToAgent::kNotice:
      return Notice{proto.notice().text()};
    case wire::ToAgent::kJobEnded:
      return JobEnded{proto.job_ended().code(), proto.job_ended().reason()};
    default:
      return std::nullopt;
  }
}

}  // namespace everstep
