// io: how TensorFlow's object-based checkpoints name variables: by keys, and by a graph of objects
// whose edges carry the parts of the names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace everstep {

extern const char kObjectGraphKey[];  // "_CHECKPOINTABLE_OBJECT_GRAPH"

// "model/dense/kernel" to "model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE". The slashes of a name
// part it; in the parts "." becomes "..".
std::string VariableKey(std::string_view name);
// The name that has this key; nothing for a key that VariableKey does not make.
std::optional<std::string> VariableName(std::string_view key);

// The serialized TrackableObjectGraph of the variables of these names: one node for each variable
// and each container, reached from the root by the parts of the name. Any order; the bytes depend
// on the set of names only.
std::string ObjectGraph(absl::Span<const std::string> names);

}  // namespace everstep
