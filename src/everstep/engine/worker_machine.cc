// engine: WorkerMachine.
#include "everstep/engine/worker_machine.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace everstep {

Actions WorkerMachine::Start(const Position& at) {
  if (state_ != State::kNew) return {};
  state_ = State::kJoining;
  Hello hello = hello_;
  hello.step = at.step;
  hello.history = at.history;
  hello.digest = at.digest;
  return {SayAction{hello}};
}

Actions WorkerMachine::OnOrder(const WorkerOrder& order, const Position& at) {
  if (state_ == State::kEnded) return {};
  if (auto* welcome = std::get_if<Welcome>(&order)) {
    term_ = std::max(term_, welcome->term);
    return {};
  }
  if (auto* close = std::get_if<Close>(&order)) return OnClose(*close, at);
  if (auto* prepare = std::get_if<Prepare>(&order)) return OnPrepare(*prepare);
  if (auto* commit = std::get_if<Commit>(&order)) {
    if (state_ == State::kSynced && commit->view == view_.id) state_ = State::kRunning;
    return {};
  }
  return OnStop(std::get<Stop>(order));
}

Actions WorkerMachine::OnClose(const Close& close, const Position& at) {
  if (close.view != view_.id || state_ == State::kLeaving) return {};
  Actions actions;
  if (linked_) actions.push_back(UnlinkAction{});
  linked_ = false;
  state_ = State::kJoining;
  actions.push_back(SayAction{Closed{close.view, at.history, at.step, at.digest}});
  return actions;
}

Actions WorkerMachine::OnPrepare(const Prepare& prepare) {
  const View& next = prepare.view;
  if (next.id.term < term_ || !(view_.id < next.id)) return {};
  if (state_ == State::kNew || state_ == State::kLeaving) return {};
  Actions actions;
  if (linked_) actions.push_back(UnlinkAction{});
  linked_ = false;
  term_ = next.id.term;
  view_ = next;
  state_ = State::kLinking;
  actions.push_back(LinkAction{next, prepare.origin});
  return actions;
}

Actions WorkerMachine::OnStop(const Stop& stop) {
  Actions actions;
  if (linked_) actions.push_back(UnlinkAction{});
  linked_ = false;
  state_ = State::kEnded;
  end_ = {stop.code, stop.reason};
  actions.push_back(end_);
  return actions;
}

Actions WorkerMachine::Linked(const absl::Status& outcome, int peer, const Position& at) {
  if (state_ != State::kLinking) return {};
  if (!outcome.ok()) {
    state_ = State::kBroken;
    return {SayAction{LinkLost{view_.id, peer, std::string(outcome.message())}}};
  }
  linked_ = true;
  state_ = State::kSynced;
  return {SayAction{Synced{view_.id, at.step, at.digest}}};
}

Actions WorkerMachine::RoundFailed(const absl::Status& why, int peer) {
  if (state_ != State::kRunning) return {};
  state_ = State::kBroken;
  return {SayAction{LinkLost{view_.id, peer, std::string(why.message())}}};
}

Actions WorkerMachine::Leave(Leaving leaving, const Position& at) {
  if (state_ == State::kEnded || state_ == State::kLeaving) return {};
  const bool known = state_ != State::kNew;
  Actions actions;
  // Who leaves because it failed keeps nobody waiting: its links go at once. Who has finished keeps
  // them until Stop, so that slower members can still finish their last round.
  if (linked_ && leaving.reason == LeaveReason::kFailed) {
    actions.push_back(UnlinkAction{});
    linked_ = false;
  }
  if (!known) {  // the coordinator has never heard of this life: nobody waits for it
    state_ = State::kEnded;
    end_ = {leaving.exit_code, leaving.message};
    actions.push_back(end_);
    return actions;
  }
  state_ = State::kLeaving;
  leaving.view = view_.id;
  leaving.step = at.step;
  leaving.digest = at.digest;
  actions.push_back(SayAction{std::move(leaving)});
  return actions;
}

}  // namespace everstep
