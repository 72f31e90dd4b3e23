// base: positions of a job.
#pragma once

#include <cstdint>

namespace everstep {

// One update of the state, numbered from 0. A state "at step s" has had the updates 0 .. s-1; it is
// what step s starts from. So the step number is also the position in the training data.
using Step = int64_t;

// Raised by every rewind; steps of different histories are never compared.
using History = int64_t;

// One collective round of a view: a training step or an evaluation step. 0 at the view's commit,
// rises by one each; a round cut short is never tried again inside its view.
using Round = int64_t;

// Steps [begin, end).
struct StepRange {
  Step begin = 0;
  Step end = 0;
};

}  // namespace everstep
