// cluster: a place in a cluster in plain words.
#pragma once

#include <string>

#include "everstep/cluster/tf_config.h"

namespace everstep {

// What this process is, who leads and saves, who its peers are, and what TensorFlow will do with
// it: lines of text, the last with its end of line. `config` is one that has no errors.
std::string ExplainPlace(const TfConfig& config, StrategyKind strategy);

}  // namespace everstep
