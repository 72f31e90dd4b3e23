// membership: messages of workers and orders for them, as plain values and as the protos of the
// wire.
#include "everstep/membership/translate.h"

#include "everstep/membership/translate_parts.h"

namespace everstep {
namespace {

using parts::Get;
using parts::Put;

// ---- worker to coordinator ----

void Put(const Hello& from, wire::FromWorker* to) {
  wire::Hello* h = to->mutable_hello();
  Put(from.task, h->mutable_task());
  h->set_incarnation(from.incarnation);
  h->set_host(from.host);
  h->set_data_address(from.data_address);
  parts::PutTexts(from.fingerprint, h->mutable_fingerprint());
  Put(from.view, h->mutable_view());
  h->set_history(from.history);
  h->set_step(from.step);
  h->set_digest(from.digest);
}
Hello Get(const wire::Hello& h) {
  return {
      Get(h.task()), h.incarnation(), h.host(), h.data_address(), parts::GetTexts(h.fingerprint()),
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

void Put(const Note& from, wire::FromWorker* to) { Put(from, to->mutable_note()); }

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

}  // namespace everstep
