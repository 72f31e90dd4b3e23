// membership: the in-process coordinator of a program that runs alone: one worker, all replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "everstep/membership/control.h"

namespace everstep {

// Answers Hello with Welcome and Prepare of view TERM.1, whose one member is who said it and runs
// all `num_replicas` (>= 1) and begins with the state of its Hello; Synced with Commit; Leaving
// with Stop and its code (143 when it was told to leave). Nothing interrupts a round: the callback
// is never called. `heard` sees all that is said, in the sender's thread; may be null.
std::unique_ptr<ControlLink> MakeLoneLink(
    int num_replicas, int64_t term = 1,
    std::function<void(const WorkerMessage& message)> heard = nullptr);

}  // namespace everstep
