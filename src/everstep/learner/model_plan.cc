// learner: checks of a ModelSpec.
#include "everstep/learner/model_plan.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

std::string Text(const TensorSpec& t) {
  return absl::StrCat(NameOf(t.dtype), ShapeToString(t.shape));
}

absl::Status CheckField(const char* which, const FieldSpec& field) {
  if (field.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's ", which, " names no field of the batch; set ", which, ".name"));
  }
  if (NumElements(field.shape) <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the model's ", which, " '", field.name,
                                                   "' has the shape ", ShapeToString(field.shape),
                                                   "; every dimension must be above 0"));
  }
  return absl::OkStatus();
}

// Checkpoints and messages use names as path components.
bool IsGoodName(const std::string& name) {
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != '_' && c != '-' && c != '.') return false;
  }
  return !name.empty();
}

absl::StatusOr<std::vector<std::string>> NameLayers(const std::vector<LayerPtr>& layers) {
  std::vector<std::string> names;
  std::map<std::string, int> count;  // of layers that the user did not name, by kind
  std::set<std::string> taken;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", i, " of the model is null"));
    }
    std::string name = layers[i]->name();
    if (name.empty()) {
      const std::string kind = layers[i]->kind();
      const int n = count[kind]++;
      name = n == 0 ? kind : absl::StrCat(kind, "_", n);
    }
    if (!IsGoodName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer ", i, " is called '", name, "'; use letters, digits, '_', '-' and '.' only"));
    }
    if (!taken.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two layers are called '", name, "'; give one of them another name"));
    }
    names.push_back(std::move(name));
  }
  return names;
}

absl::Status CheckPlan(const LayerPlan& plan) {
  std::set<std::string> names;
  for (const ParameterSpec& p : plan.parameters) {
    if (!IsGoodName(p.name) || !names.insert(p.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter name '", p.name, "' is used twice or is not a plain word"));
    }
    if (NumElements(p.shape) <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", p.name, "' has the shape ",
                                                     ShapeToString(p.shape),
                                                     "; every dimension must be above 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const ModelSpec& spec, const TensorSpec& prediction) {
  std::set<std::string> names = {"loss"};
  for (const MetricPtr& metric : spec.metrics) {
    if (metric == nullptr) return absl::InvalidArgumentError("a metric of the model is null");
    if (!names.insert(metric->name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two metrics are called '", metric->name(), "', or one is called 'loss'"));
    }
    EV_RETURN_IF_ERROR(metric->Check(prediction.shape, spec.label.dtype, spec.label.shape));
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const ModelSpec& spec) {
  EV_RETURN_IF_ERROR(CheckField("input", spec.input));
  EV_RETURN_IF_ERROR(CheckField("label", spec.label));
  if (spec.layers.empty()) return absl::InvalidArgumentError("the model has no layers");
  if (spec.loss == nullptr) return absl::InvalidArgumentError("the model has no loss; set loss");
  if (spec.optimizer == nullptr) {
    return absl::InvalidArgumentError("the model has no optimizer; set optimizer");
  }
  return spec.optimizer->Check();
}

// Adds `layer` after what is planned already; `flow` is what comes in and then what goes out.
absl::Status AddLayer(const LayerPtr& layer, const std::string& name, TensorSpec& flow,
                      ModelPlan& plan) {
  PlannedLayer planned;
  planned.layer = layer;
  planned.name = name;
  planned.cast = !layer->Accepts(flow.dtype);
  planned.input = flow;
  if (planned.cast) planned.input.dtype = DType::kFloat32;
  absl::StatusOr<LayerPlan> made = layer->Plan(planned.input);
  const std::string context = absl::StrCat("layer '", name, "' on ", Text(planned.input));
  if (!made.ok()) return Annotate(made.status(), context);
  EV_RETURN_IF_ERROR(Annotate(CheckPlan(*made), context));
  planned.output = made->output;
  planned.first_parameter = static_cast<int>(plan.parameters.size());
  planned.num_parameters = static_cast<int>(made->parameters.size());
  const int index = static_cast<int>(plan.layers.size());
  for (ParameterSpec& p : made->parameters) {
    const int64_t size = NumElements(p.shape);
    plan.parameters.push_back({index, name, std::move(p), size, 0});
  }
  flow = planned.output;
  plan.layers.push_back(std::move(planned));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec) {
  EV_RETURN_IF_ERROR(CheckParts(spec));
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> names, NameLayers(spec.layers));
  ModelPlan plan;
  TensorSpec flow = {spec.input.dtype, spec.input.shape};
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    EV_RETURN_IF_ERROR(AddLayer(spec.layers[i], names[i], flow, plan));
  }
  if (flow.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model gives ", Text(flow), "; its last layer must give float32"));
  }
  if (plan.parameters.empty()) {
    return absl::InvalidArgumentError("the model has no parameters, so nothing to train");
  }
  EV_RETURN_IF_ERROR(spec.loss->Check(flow, {spec.label.dtype, spec.label.shape}));
  EV_RETURN_IF_ERROR(CheckMetrics(spec, flow));
  return plan;
}

absl::StatusOr<std::string> DescribeModel(const ModelSpec& spec) {
  EV_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(spec));
  std::string text = absl::StrCat("input ", spec.input.name, " ",
                                  Text({spec.input.dtype, spec.input.shape}), "\n");
  int64_t total = 0;
  for (const PlannedLayer& layer : plan.layers) {
    int64_t size = 0;
    for (int i = 0; i < layer.num_parameters; ++i) {
      size += plan.parameters[layer.first_parameter + i].size;
    }
    total += size;
    absl::StrAppend(&text, layer.name, ": ", layer.layer->Describe(), " -> ", Text(layer.output),
                    ", ", size, " parameters\n");
  }
  absl::StrAppend(&text, "label ", spec.label.name, " ", Text({spec.label.dtype, spec.label.shape}),
                  "\nloss ", spec.loss->Describe(), "\noptimizer ", spec.optimizer->Describe(),
                  "\nmetrics");
  for (const MetricPtr& metric : spec.metrics) absl::StrAppend(&text, " ", metric->name());
  absl::StrAppend(&text, "\ntotal ", total, " parameters\n");
  return text;
}

}  // namespace everstep
