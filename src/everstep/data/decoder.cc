// data: decoding.
#include "everstep/data/decoder.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

constexpr int64_t kMaxExampleBytes = int64_t{1} << 30;

using Kind = FeatureView::Kind;

Kind KindOf(const FeatureSpec& field) {
  if (field.encoding == FeatureSpec::Encoding::kRaw) return Kind::kBytes;
  const bool is_float = field.dtype == DType::kFloat32 || field.dtype == DType::kFloat64;
  return is_float ? Kind::kFloat : Kind::kInt64;
}

absl::Status Mismatch(const FeatureSpec& field, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("feature \"", field.name, "\" ", std::string(what),
                                                 " (wanted ", field.ToString(), ")"));
}

std::string WithArticle(Kind kind) {
  return absl::StrCat(kind == Kind::kInt64 ? "an " : "a ", FeatureView::NameOf(kind));
}

std::string NamesIn(std::string_view record) {
  std::string names;
  int count = 0;
  (void)ForEachFeature(record, [&](std::string_view name, const FeatureView&) {
    if (++count <= 8) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(name.substr(0, 64)));
    }
  });
  if (count > 8) absl::StrAppend(&names, ", ...");
  return names.empty() ? "none" : names;
}

// The values as T; the first that does not fit is an error.
template <typename T>
absl::Status Narrow(const FeatureSpec& field, absl::Span<const int64_t> values, std::byte* out) {
  auto* at = reinterpret_cast<T*>(out);
  for (int64_t value : values) {
    if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        value > static_cast<int64_t>(std::numeric_limits<T>::max())) {
      return Mismatch(field, absl::StrCat("has the value ", value, ", which does not fit"));
    }
    *at++ = static_cast<T>(value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExampleDecoder> ExampleDecoder::Make(std::vector<FeatureSpec> fields) {
  if (fields.empty()) {
    return absl::InvalidArgumentError("a data set needs .Features({...}): none were named");
  }
  int64_t total = 0;
  for (const FeatureSpec& field : fields) {
    const int64_t elements = NumElements(field.shape);
    if (field.name.empty() || elements < 0 || elements > kMaxExampleBytes ||
        (total += field.num_bytes()) > kMaxExampleBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", field.ToString(), ": no name, a negative shape, or over 1 GiB"));
    }
    if (field.encoding == FeatureSpec::Encoding::kList && field.dtype == DType::kUInt64) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", field.ToString(), ": lists hold int64, not uint64"));
    }
    for (const FeatureSpec& other : fields) {
      if (&other != &field && other.name == field.name) {
        return absl::InvalidArgumentError(
            absl::StrCat("two fields are called \"", field.name, "\""));
      }
    }
  }
  return ExampleDecoder(std::move(fields));
}

absl::Status ExampleDecoder::Decode(std::string_view record, absl::Span<std::byte* const> out,
                                    Scratch* scratch) const {
  std::vector<FeatureView>& views = scratch->views;
  views.resize(fields_.size());
  std::string_view names[16];
  for (size_t begin = 0; begin < fields_.size(); begin += std::size(names)) {
    const size_t n = std::min(std::size(names), fields_.size() - begin);
    for (size_t i = 0; i < n; ++i) names[i] = fields_[begin + i].name;
    EV_RETURN_IF_ERROR(FindFeatures(record, absl::MakeConstSpan(names, n),
                                    absl::MakeSpan(views).subspan(begin, n)));
  }
  for (size_t f = 0; f < fields_.size(); ++f) {
    if (views[f].kind() == Kind::kMissing) {
      return Mismatch(fields_[f],
                      absl::StrCat("is missing; the record's features are ", NamesIn(record)));
    }
    EV_RETURN_IF_ERROR(DecodeField(fields_[f], views[f], out[f], scratch));
  }
  return absl::OkStatus();
}

absl::Status ExampleDecoder::DecodeField(const FeatureSpec& field, const FeatureView& view,
                                         std::byte* out, Scratch* scratch) const {
  const Kind want = KindOf(field);
  if (view.kind() != want) {
    return Mismatch(
        field, absl::StrCat("is ", WithArticle(view.kind()), ", expected ", WithArticle(want)));
  }
  const int64_t n = want == Kind::kBytes ? 1 : NumElements(field.shape);
  if (view.size() != n) {
    return Mismatch(field, absl::StrCat("has ", view.size(),
                                        view.size() == 1 ? " value" : " values", ", expected ", n));
  }
  if (want == Kind::kBytes) {
    std::string_view value;
    view.CopyBytes(absl::MakeSpan(&value, 1));
    if (static_cast<int64_t>(value.size()) != field.num_bytes()) {
      return Mismatch(field,
                      absl::StrCat("has ", value.size(), " bytes, expected ", field.num_bytes()));
    }
    if (!value.empty()) std::memcpy(out, value.data(), value.size());
    return absl::OkStatus();
  }
  const auto size = static_cast<size_t>(n);
  if (field.dtype == DType::kFloat32) {
    view.CopyFloats({reinterpret_cast<float*>(out), size});
    return absl::OkStatus();
  }
  if (field.dtype == DType::kFloat64) {
    scratch->floats.resize(size);
    view.CopyFloats(absl::MakeSpan(scratch->floats));
    std::copy(scratch->floats.begin(), scratch->floats.end(), reinterpret_cast<double*>(out));
    return absl::OkStatus();
  }
  if (field.dtype == DType::kInt64) {
    view.CopyInt64s({reinterpret_cast<int64_t*>(out), size});
    return absl::OkStatus();
  }
  scratch->ints.resize(size);
  view.CopyInt64s(absl::MakeSpan(scratch->ints));
  switch (field.dtype) {
    case DType::kInt32:
      return Narrow<int32_t>(field, scratch->ints, out);
    case DType::kUInt8:
      return Narrow<uint8_t>(field, scratch->ints, out);
    case DType::kInt8:
      return Narrow<int8_t>(field, scratch->ints, out);
    case DType::kBool:
      return Narrow<bool>(field, scratch->ints, out);
    default:
      return absl::InternalError(absl::StrCat("cannot decode ", field.ToString()));
  }
}

}  // namespace everstep
