// data: descriptions of data sets.
#include "everstep/data/dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace everstep {

std::string FeatureSpec::ToString() const {
  return absl::StrCat(name, ": ", encoding == Encoding::kRaw ? "raw " : "", NameOf(dtype),
                      ShapeToString(shape));
}

FeatureSpec FixedLen(std::string name, DType dtype, std::vector<int64_t> shape) {
  return {std::move(name), FeatureSpec::Encoding::kList, dtype, std::move(shape)};
}

FeatureSpec Raw(std::string name, DType dtype, std::vector<int64_t> shape) {
  return {std::move(name), FeatureSpec::Encoding::kRaw, dtype, std::move(shape)};
}

Dataset Dataset::FromTfRecord(std::string path) {
  return FromTfRecord(std::vector<std::string>{std::move(path)});
}

Dataset Dataset::FromTfRecord(std::vector<std::string> paths) {
  Dataset dataset;
  dataset.paths_ = std::move(paths);
  return dataset;
}

Dataset Dataset::Features(std::vector<FeatureSpec> fields) const {
  Dataset copy = *this;
  copy.fields_ = std::move(fields);
  return copy;
}

Dataset Dataset::Shuffle(ShuffleOptions options) const {
  Dataset copy = *this;
  copy.shuffle_ = options;
  return copy;
}

Dataset Dataset::NoShuffle() const {
  Dataset copy = *this;
  copy.shuffle_.shuffle = false;
  return copy;
}

Dataset Dataset::Cache(bool cache) const {
  Dataset copy = *this;
  copy.cache_ = cache;
  return copy;
}

Dataset Dataset::Map(std::string identity, MapFunction function) const {
  Dataset copy = *this;
  copy.map_identity_ = std::move(identity);
  copy.map_ = std::move(function);
  return copy;
}

}  // namespace everstep
