// learner: layout of the state.
#include "everstep/learner/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

constexpr int64_t kAlignment = 64;

int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Parameters in the order of their offsets.
std::vector<ModelParameter*> Place(std::vector<ModelParameter>& parameters) {
  std::vector<ModelParameter*> ordered;
  for (ModelParameter& p : parameters) ordered.push_back(&p);
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [](const ModelParameter* a, const ModelParameter* b) { return a->layer > b->layer; });
  int64_t offset = 0;
  for (ModelParameter* p : ordered) {
    p->offset = offset;
    offset += p->size;
  }
  return ordered;
}

std::vector<Bucket> CutBuckets(int64_t size, int64_t bucket_floats) {
  std::vector<Bucket> buckets;
  for (int64_t offset = 0; offset < size; offset += bucket_floats) {
    buckets.push_back({offset, std::min(bucket_floats, size - offset)});
  }
  return buckets;
}

}  // namespace

ModelLayout LayOut(std::vector<ModelParameter>& parameters, const std::vector<std::string>& slots,
                   int64_t bucket_floats, int statistics_size) {
  const std::vector<ModelParameter*> ordered = Place(parameters);
  ModelLayout layout;
  StateLayout& state = layout.state;
  for (const ModelParameter* p : ordered) state.gradient_size += p->size;
  state.buckets = CutBuckets(state.gradient_size, bucket_floats);
  state.statistics_size = statistics_size;

  int64_t end = 0;
  const auto add_floats = [&](const std::string& prefix) {
    const int64_t region = AlignUp(end);
    for (const ModelParameter* p : ordered) {
      state.entries.push_back({absl::StrCat(prefix, p->layer_name, "/", p->spec.name),
                               DType::kFloat32, p->spec.shape, region + p->offset * 4});
    }
    end = region + state.gradient_size * 4;
    return region;
  };
  const auto add_number = [&](const char* name) {
    const int64_t region = AlignUp(end);
    state.entries.push_back({name, DType::kInt64, {}, region});
    end = region + 8;
    return region;
  };
  layout.regions.parameters = add_floats("model/");
  for (const std::string& slot : slots) {
    layout.regions.slots.push_back(add_floats(absl::StrCat("optimizer/", slot, "/")));
  }
  layout.regions.step = add_number("step");
  layout.regions.seed = add_number("seed");
  state.state_bytes = AlignUp(end);
  return layout;
}

}  // namespace everstep
