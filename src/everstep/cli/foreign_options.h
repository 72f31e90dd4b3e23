// cli: what people write who know other launchers (torchrun, horovodrun, accelerate, mpirun, srun),
// and what Everstep calls it, or why it is not needed.
#pragma once

#include <string>

namespace everstep {

// One sentence for an option of theirs, without a full stop: "it is -n here: -n 4". Empty when no
// launcher is known to have it. `option` as it was written, "--nproc_per_node=4" or "-np"; `value`:
// the word behind it, may be empty. `verb`: "run", "agent" or "coordinator".
std::string ForeignHint(const std::string& verb, const std::string& option,
                        const std::string& value);

}  // namespace everstep
