// engine: WorkerMachine, a worker's life in the cluster as a pure state machine: orders and
// outcomes in, actions out. No clock, socket, thread or memory of the state in it; the Engine
// carries the actions out for real, a simulator may do so in its own way.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "everstep/membership/messages.h"

namespace everstep {

// Where the state is; what Synced, Closed and Hello say of it.
struct Position {
  Step step = 0;
  History history = 0;
  uint64_t digest = 0;
};

struct SayAction {
  WorkerMessage message;
};
// Link to all members of the view, take the state it begins with, then call Linked.
struct LinkAction {
  View view;
  StateOrigin origin;
};
// Drop the communicator. When this is done no thread is in its view any more; only then may the
// next action be carried out (it says so to the coordinator).
struct UnlinkAction {};
// Leave the process with this code.
struct EndAction {
  int code = 0;
  std::string reason;
};
using Action = std::variant<SayAction, LinkAction, UnlinkAction, EndAction>;
using Actions = std::vector<Action>;

class WorkerMachine {
 public:
  enum class State {
    kNew,      // nothing said yet
    kJoining,  // said Hello or Closed; waits for a view
    kLinking,  // a view is prepared and being linked
    kSynced,   // linked; waits for the view's commit
    kRunning,  // rounds may run in view()
    kBroken,   // a round failed; waits for Close
    kLeaving,  // said Leaving; waits for Stop
    kEnded,
  };

  // `hello` says who this worker is; its view, step, history and digest are filled in here.
  explicit WorkerMachine(Hello hello) : hello_(std::move(hello)) {}

  State state() const { return state_; }
  const View& view() const { return view_; }     // the prepared or running one
  const EndAction& end() const { return end_; }  // when kEnded

  // Each takes where the state is now and returns what must be done, in order. An order of an older
  // term or view, or one that does not fit the state, is passed over: it was meant for a former
  // life.
  Actions Start(const Position& at);
  Actions OnOrder(const WorkerOrder& order, const Position& at);
  Actions Linked(const absl::Status& outcome, int peer, const Position& at);
  // `peer`: the rank to blame, or -1.
  Actions RoundFailed(const absl::Status& why, int peer);
  // `leaving` says why; its view, step and digest are filled in here. Nothing follows but Stop.
  Actions Leave(Leaving leaving, const Position& at);

 private:
  Actions OnClose(const Close& close, const Position& at);
  Actions OnPrepare(const Prepare& prepare);
  Actions OnStop(const Stop& stop);

  Hello hello_;
  State state_ = State::kNew;
  int64_t term_ = 0;
  bool linked_ = false;  // a communicator of view_ exists
  View view_;
  EndAction end_;
};

}  // namespace everstep
