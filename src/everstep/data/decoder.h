// data: the bytes of one tf.train.Example to the fields of one example.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/data/dataset.h"
#include "everstep/io/example.h"

namespace everstep {

// Immutable once made; any thread, each with a Scratch of its own.
class ExampleDecoder {
 public:
  struct Scratch {
    std::vector<FeatureView> views;
    std::vector<int64_t> ints;
    std::vector<float> floats;
  };

  // kInvalidArgument, naming the field, for a description that cannot be decoded.
  static absl::StatusOr<ExampleDecoder> Make(std::vector<FeatureSpec> fields);

  const std::vector<FeatureSpec>& fields() const { return fields_; }

  // Writes field f to out[f], fields()[f].num_bytes() bytes, aligned to its type. kDataLoss: the
  // bytes are no Example. kInvalidArgument: a feature is missing, of another kind or length, or
  // does not fit its type; says what was expected and what was found. `out` is then undefined.
  absl::Status Decode(std::string_view record, absl::Span<std::byte* const> out,
                      Scratch* scratch) const;

 private:
  explicit ExampleDecoder(std::vector<FeatureSpec> fields) : fields_(std::move(fields)) {}
  absl::Status DecodeField(const FeatureSpec& field, const FeatureView& view, std::byte* out,
                           Scratch* scratch) const;

  std::vector<FeatureSpec> fields_;
};

}  // namespace everstep
