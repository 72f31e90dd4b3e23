// data: the description of a data set: which files, which features, in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/data/order.h"

namespace everstep {

// One feature of a tf.train.Example as one field of a batch.
struct FeatureSpec {
  enum class Encoding { kList, kRaw };

  std::string name;  // of the feature and of the field
  Encoding encoding = Encoding::kList;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  // of one example

  int64_t num_bytes() const { return NumElements(shape) * SizeOf(dtype); }
  std::string ToString() const;  // "image: raw uint8[784]"
};

// A float list (float32, float64) or an int64 list (integers, bool; a value that does not fit its
// type is an error) with as many values as the shape has elements.
FeatureSpec FixedLen(std::string name, DType dtype, std::vector<int64_t> shape = {});
// A bytes list of one value: the elements' bytes, little-endian.
FeatureSpec Raw(std::string name, DType dtype, std::vector<int64_t> shape);

// Changes one example in place. `key` is all the randomness it may use (RandomAt(key, k)): it
// depends on (seed, epoch, record) only. Called from several threads at once.
using MapFunction = std::function<absl::Status(uint64_t key, absl::Span<const TensorSpan> fields)>;

// A value: each call returns a changed copy.
//   Dataset::FromTfRecord("train.tfrecord")
//       .Features({Raw("image", DType::kUInt8, {784}), FixedLen("label", DType::kInt64)})
//       .Shuffle()
class Dataset {
 public:
  static Dataset FromTfRecord(std::string path);
  static Dataset FromTfRecord(std::vector<std::string> paths);  // one sequence, in this order

  Dataset Features(std::vector<FeatureSpec> fields) const;
  Dataset Shuffle(ShuffleOptions options = {}) const;  // how it is unless told otherwise
  Dataset NoShuffle() const;
  // Whether decoded examples may be kept in memory; so it is unless told otherwise.
  Dataset Cache(bool cache) const;
  // `identity` names the function and its version: it goes into the fingerprint, which cannot see
  // into code. Applied after the cache, so each epoch maps anew.
  Dataset Map(std::string identity, MapFunction function) const;

  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<FeatureSpec>& fields() const { return fields_; }
  const ShuffleOptions& shuffle() const { return shuffle_; }
  bool cache() const { return cache_; }
  const MapFunction& map() const { return map_; }
  const std::string& map_identity() const { return map_identity_; }

 private:
  std::vector<std::string> paths_;
  std::vector<FeatureSpec> fields_;
  ShuffleOptions shuffle_;
  bool cache_ = true;
  std::string map_identity_;
  MapFunction map_;
};

}  // namespace everstep
