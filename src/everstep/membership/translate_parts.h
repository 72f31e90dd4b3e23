// membership: what messages of workers and of agents are made of, as plain values and as protos.
// Internal to the room.
#pragma once

#include <map>
#include <string>

#include "everstep/membership/translate.h"

namespace everstep::parts {

inline void Put(const ViewId& from, wire::ViewId* to) {
  to->set_term(from.term);
  to->set_id(from.id);
}
inline ViewId Get(const wire::ViewId& from) { return {from.term(), from.id()}; }

inline void Put(const Task& from, wire::Task* to) {
  to->set_type(from.type);
  to->set_index(from.index);
}
inline Task Get(const wire::Task& from) { return {from.type(), from.index()}; }

inline void Put(const View& from, wire::View* to) {
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
inline View Get(const wire::View& from) {
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

inline void Put(const Scalars& from, wire::Scalars* to) {
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
inline Scalars Get(const wire::Scalars& from) {
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

inline void Put(const Note& from, wire::Note* n) {
  n->set_kind(from.kind);
  n->set_step(from.step);
  n->set_text(from.text);
}
inline Note Get(const wire::Note& n) { return {n.kind(), n.step(), n.text()}; }

}  // namespace everstep::parts
