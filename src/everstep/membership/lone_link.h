// membership: the in-process coordinator of a program that runs alone: one worker, all replicas.
#pragma once

#include <memory>

#include "everstep/membership/control.h"

namespace everstep {

// Answers Hello with Welcome and Prepare of view 1.1, whose one member is who said it and runs all
// `num_replicas` (>= 1) and begins with the state of its Hello; Synced with Commit; Leaving with
// Stop and its code (143 when it was told to leave). Nothing interrupts a round: the callback is
// never called.
std::unique_ptr<ControlLink> MakeLoneLink(int num_replicas);

}  // namespace everstep
