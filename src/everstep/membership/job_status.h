// membership: a job's state as people and programs see it in status.json.
#pragma once

#include "everstep/job/status.h"
#include "everstep/membership/job_state.h"

namespace everstep {

// Pure. `time` is left to whoever writes it.
JobStatus StatusOf(TimePoint now, const JobState& state);

}  // namespace everstep
