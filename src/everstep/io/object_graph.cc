// io: keys and object graph.
#include "everstep/io/object_graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "everstep/io/object_graph.pb.h"

namespace everstep {

const char kObjectGraphKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

namespace {

constexpr std::string_view kValueSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

struct Node {
  std::map<std::string, std::unique_ptr<Node>> children;
  std::string variable;  // its full name; empty for one that is a container only
};

std::unique_ptr<Node> TreeOf(absl::Span<const std::string> names) {
  auto root = std::make_unique<Node>();
  for (const std::string& name : names) {
    Node* node = root.get();
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      std::unique_ptr<Node>& child = node->children[name.substr(begin, end - begin)];
      if (child == nullptr) child = std::make_unique<Node>();
      node = child.get();
      begin = end + 1;
    }
    node->variable = name;
  }
  return root;
}

}  // namespace

std::string VariableKey(std::string_view name) {
  std::string key;
  key.reserve(name.size() + kValueSuffix.size());
  for (const char c : name) {
    if (c == '.') key.push_back('.');
    key.push_back(c);
  }
  return key.append(kValueSuffix);
}

std::optional<std::string> VariableName(std::string_view key) {
  if (key.size() <= kValueSuffix.size() ||
      key.substr(key.size() - kValueSuffix.size()) != kValueSuffix) {
    return std::nullopt;
  }
  key.remove_suffix(kValueSuffix.size());
  std::string name;
  for (size_t i = 0; i < key.size(); ++i) {
    // A single dot begins what is no part of a name, ".OPTIMIZER_SLOT" or ".S".
    if (key[i] == '.' && (++i == key.size() || key[i] != '.')) return std::nullopt;
    name.push_back(key[i]);
  }
  return name;
}

std::string ObjectGraph(absl::Span<const std::string> names) {
  const std::unique_ptr<Node> root = TreeOf(names);
  format::TrackableObjectGraph graph;
  std::vector<const Node*> order = {root.get()};  // breadth first, as TensorFlow numbers nodes
  for (size_t i = 0; i < order.size(); ++i) {
    auto* object = graph.add_nodes();
    for (const auto& [name, child] : order[i]->children) {
      auto* reference = object->add_children();
      reference->set_node_id(static_cast<int32_t>(order.size()));
      reference->set_local_name(name);
      order.push_back(child.get());
    }
    if (!order[i]->variable.empty()) {
      auto* attribute = object->add_attributes();
      attribute->set_name("VARIABLE_VALUE");
      attribute->set_full_name(order[i]->variable);
      attribute->set_checkpoint_key(VariableKey(order[i]->variable));
    }
    // Every node here is a variable or leads to one.
    object->mutable_has_checkpoint_values()->set_value(true);
  }
  return graph.SerializeAsString();
}

}  // namespace everstep
