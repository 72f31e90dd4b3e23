// launch: the hints.
#include "everstep/launch/hint.h"

#include <algorithm>
#include <vector>

namespace everstep {

std::string HintOnFailure(std::string_view last_lines) {
  struct Known {
    std::vector<std::string_view> words;  // all of them
    const char* hint;
  };
  static const auto* const known = new std::vector<Known>{
      {{"distribute.values.PerReplica", "unsupported type"},
       "model.fit of Keras 3 fails under MultiWorkerMirroredStrategy: pip install tf-keras, and "
       "set "
       "TF_USE_LEGACY_KERAS=1"},
      {{"Keras cannot be imported"},
       "with TF_USE_LEGACY_KERAS=1 tf.keras is the package tf-keras: pip install tf-keras"},
      {{"Collective ops must be configured at program startup"},
       "make the strategy before anything else that TensorFlow does"},
      {{"No module named 'everstep_heartbeat'"},
       "put the directory that everstep python-path prints into PYTHONPATH"},
  };
  for (const Known& one : *known) {
    const bool all = std::all_of(one.words.begin(), one.words.end(), [&](std::string_view word) {
      return last_lines.find(word) != std::string_view::npos;
    });
    if (all) return one.hint;
  }
  return "";
}

}  // namespace everstep
