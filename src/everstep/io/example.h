// io: tf.train.Example, read in place and written, without building messages: a parse per record
// per epoch is the hot path of reading data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace everstep {

// One feature, seen inside the record's bytes, which must outlive it. Cheap to copy.
class FeatureView {
 public:
  enum class Kind { kMissing, kBytes, kFloat, kInt64 };

  FeatureView() = default;  // missing

  Kind kind() const { return kind_; }
  static const char* NameOf(Kind kind);  // "int64 list"

  // Values of the list. The view was checked when made: these cannot fail.
  int64_t size() const { return size_; }
  // The values, of the list's kind; `out` has size() elements.
  void CopyInt64s(absl::Span<int64_t> out) const;
  void CopyFloats(absl::Span<float> out) const;
  void CopyBytes(absl::Span<std::string_view> out) const;

 private:
  friend class ExampleParser;
  Kind kind_ = Kind::kMissing;
  int64_t size_ = 0;
  std::string_view lists_;  // the part of the Feature message after which the kind stays the same
};

// Finds in `example` the features called `names[i]` and makes `out[i]` of each, kMissing for one
// that is not there or has no kind. Features not asked for are stepped over, not checked. Of two
// features of one name the last counts; packed and unpacked lists are both read.
// kDataLoss, saying what is wrong, when the bytes are no Example. Allocates nothing on success.
absl::Status FindFeatures(std::string_view example, absl::Span<const std::string_view> names,
                          absl::Span<FeatureView> out);

// Calls `visit` for every feature in the order of the bytes, duplicates included.
absl::Status ForEachFeature(
    std::string_view example,
    absl::FunctionRef<void(std::string_view name, const FeatureView& view)> visit);

// Builds the bytes of one Example: features in the order added, one each name.
class ExampleBuilder {
 public:
  void AddBytes(std::string_view name, absl::Span<const std::string_view> values);
  void AddBytes(std::string_view name, std::string_view value) {
    AddBytes(name, absl::MakeConstSpan(&value, 1));
  }
  void AddFloats(std::string_view name, absl::Span<const float> values);
  void AddInt64s(std::string_view name, absl::Span<const int64_t> values);

  // The finished bytes; starts anew.
  std::string Finish();

 private:
  void AddFeature(std::string_view name, int kind_field, const std::string& list);
  std::string features_;
};

}  // namespace everstep
