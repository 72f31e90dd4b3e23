// membership: messages of agents and orders for them, as plain values and as the protos of the
// wire.
#include "everstep/membership/translate.h"

#include "everstep/membership/translate_parts.h"

namespace everstep {
namespace {

using parts::Get;
using parts::Put;

// ---- agent to coordinator ----

void Put(const Register& from, wire::FromAgent* to) {
  wire::Register* r = to->mutable_register_();
  r->set_agent(from.agent);
  r->set_host(from.host);
  r->set_address(from.address);
  r->set_slots(from.slots);
  for (int port : from.ports) r->add_ports(port);
  r->set_version(from.version);
  if (from.task) Put(*from.task, r->mutable_task());
  r->set_cluster(from.cluster);
  r->set_pid(from.pid);
}
Register Get(const wire::Register& r) {
  Register to{r.agent(),
              r.host(),
              r.address(),
              r.slots(),
              std::vector<int>(r.ports().begin(), r.ports().end()),
              r.version()};
  if (r.has_task()) to.task = Get(r.task());
  to.cluster = r.cluster();
  to.pid = r.pid();
  return to;
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
  parts::PutTexts(from.settings, s->mutable_settings());
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
  to.settings = parts::GetTexts(s.settings());
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

wire::FromAgent ToProto(const AgentMessage& message) { return Translate<wire::FromAgent>(message); }
wire::ToAgent ToProto(const AgentOrder& order) { return Translate<wire::ToAgent>(order); }

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
