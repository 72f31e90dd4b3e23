// io: keys and graph are what TensorFlow's object-based checkpoints have.
#include "everstep/io/object_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "everstep/io/object_graph.pb.h"

namespace everstep {
namespace {

TEST(ObjectGraph, KeysAreTensorFlowsAndGiveTheNamesBack) {
  const std::map<std::string, std::string> keys = {
      {"step", "step/.ATTRIBUTES/VARIABLE_VALUE"},
      {"model/dense/kernel", "model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"},
      {"model/v1.5/.x", "model/v1..5/..x/.ATTRIBUTES/VARIABLE_VALUE"},
      {"a..b", "a....b/.ATTRIBUTES/VARIABLE_VALUE"},
      {"a//b", "a//b/.ATTRIBUTES/VARIABLE_VALUE"}};
  for (const auto& [name, key] : keys) {
    EXPECT_EQ(VariableKey(name), key);
    EXPECT_EQ(VariableName(key).value_or("none"), name);
  }
}

TEST(ObjectGraph, OtherKeysAreOfNoName) {
  for (const char* key : {"", "step", "/.ATTRIBUTES/VARIABLE_VALUE", "step/.ATTRIBUTES/OTHER",
                          "w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
                          "a.Sb/.ATTRIBUTES/VARIABLE_VALUE", "a./.ATTRIBUTES/VARIABLE_VALUE"}) {
    EXPECT_FALSE(VariableName(key).has_value()) << key;
  }
}

TEST(ObjectGraph, OneVariablesBytesAreThoseOfTheFormat) {
  // As TensorFlow's own of one variable, but that it also says has_checkpoint_values.
  EXPECT_EQ(absl::BytesToHexString(ObjectGraph({"variable"})),
            "0a12"
            "0a0c"
            "0801"
            "1208" +
                absl::BytesToHexString("variable") +
                "2a020801"
                "0a45"
                "123f"
                "0a0e" +
                absl::BytesToHexString("VARIABLE_VALUE") + "1208" +
                absl::BytesToHexString("variable") + "1a23" +
                absl::BytesToHexString("variable/.ATTRIBUTES/VARIABLE_VALUE") + "2a020801");
}

TEST(ObjectGraph, TheEdgesLeadToEveryVariableByThePartsOfItsName) {
  const std::vector<std::string> names = {"step", "model/dense/kernel", "model/dense/bias", "model",
                                          "optimizer/m/model/dense/kernel"};
  format::TrackableObjectGraph graph;
  ASSERT_TRUE(graph.ParseFromString(ObjectGraph(names)));
  std::vector<int> parents(static_cast<size_t>(graph.nodes_size()));
  std::map<std::string, std::string> found;  // by path
  std::vector<std::string> paths(static_cast<size_t>(graph.nodes_size()));
  int last = 0;
  for (int i = 0; i < graph.nodes_size(); ++i) {
    EXPECT_TRUE(graph.nodes(i).has_checkpoint_values().value());
    for (const auto& child : graph.nodes(i).children()) {
      ASSERT_EQ(child.node_id(), ++last) << "breadth first";
      ++parents[child.node_id()];
      paths[child.node_id()] = (i == 0 ? "" : paths[i] + "/") + child.local_name();
    }
    for (const auto& attribute : graph.nodes(i).attributes()) {
      EXPECT_EQ(attribute.name(), "VARIABLE_VALUE");
      found[paths[i]] = attribute.checkpoint_key();
    }
  }
  EXPECT_EQ(last + 1, graph.nodes_size());
  EXPECT_EQ(parents[0], 0);
  for (size_t i = 1; i < parents.size(); ++i) EXPECT_EQ(parents[i], 1) << paths[i];
  EXPECT_EQ(found.size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(found[name], VariableKey(name));
}

TEST(ObjectGraph, TheOrderOfTheNamesDoesNotMatter) {
  EXPECT_EQ(ObjectGraph({"a/b", "c", "a/d"}), ObjectGraph({"c", "a/d", "a/b"}));
}

}  // namespace
}  // namespace everstep
