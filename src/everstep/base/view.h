// base: View, an agreed membership.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "everstep/base/task.h"

namespace everstep {

// Views are totally ordered and only rise; a term belongs to one coordinator.
struct ViewId {
  int64_t term = 0;
  int64_t id = 0;

  std::string ToString() const;  // "1.3"
  friend bool operator==(ViewId a, ViewId b) { return a.term == b.term && a.id == b.id; }
  friend bool operator!=(ViewId a, ViewId b) { return !(a == b); }
  friend bool operator<(ViewId a, ViewId b) {
    return a.term != b.term ? a.term < b.term : a.id < b.id;
  }
};

// One life of a task's process; never reused. 0 means none.
using Incarnation = uint64_t;

struct Member {
  Task task;
  Incarnation incarnation = 0;
  std::string host;          // members of equal host are neighbours in View::members
  std::string data_address;  // "host:port" of its data-plane listener
  int replica_begin = 0;     // runs the replicas [replica_begin, replica_end)
  int replica_end = 0;
};

// Members ordered by (host, task index); their replica ranges partition [0, num_replicas) in order.
struct View {
  ViewId id;
  int num_replicas = 0;  // R, fixed for the life of the job
  std::vector<Member> members;
  int committer = 0;  // rank of the member that writes checkpoints' indices and event files

  // The rank of `incarnation`, or -1.
  int RankOf(Incarnation incarnation) const;
};

}  // namespace everstep
