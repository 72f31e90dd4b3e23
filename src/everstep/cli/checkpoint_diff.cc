// cli: checkpoint diff: what differs between two checkpoints, tensor by tensor.
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/base/tensor_span.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/find.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/io/bundle_reader.h"
#include "everstep/io/bytes.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kVariableValue = "/.ATTRIBUTES/VARIABLE_VALUE";
constexpr std::string_view kObjectGraph = "_CHECKPOINTABLE_OBJECT_GRAPH";
constexpr std::string_view kSaveCounter = "save_counter";
constexpr std::string_view kMetadata = "everstep/";

// The name of a tensor whatever way it was saved.
std::string NameOfKey(const std::string& key) {
  if (!absl::EndsWith(key, ToAbsl(kVariableValue))) return key;
  return key.substr(0, key.size() - kVariableValue.size());
}

// One of the two.
struct Side {
  std::string prefix;
  std::unique_ptr<BundleReader> bundle;
  std::map<std::string, const BundleEntry*> tensors, metadata;  // of `bundle`
};

absl::StatusOr<Side> OpenSide(FileSystem& fs, const std::string& path) {
  Side side;
  EV_ASSIGN_OR_RETURN(side.prefix, FindCheckpoint(fs, path));
  EV_ASSIGN_OR_RETURN(side.bundle, BundleReader::Open(fs, side.prefix));
  for (const BundleEntry& entry : side.bundle->entries()) {
    if (entry.sliced) {
      return absl::UnimplementedError(absl::StrCat(side.prefix, ": tensor \"", entry.name,
                                                   "\" is stored in slices: cannot compare"));
    }
    const std::string name = NameOfKey(entry.name);
    const bool metadata =
        absl::StartsWith(name, ToAbsl(kMetadata)) || name == kObjectGraph || name == kSaveCounter;
    (metadata ? side.metadata : side.tensors)[name] = &entry;
  }
  return side;
}

// How two tensors of one type and shape differ.
struct Difference {
  int64_t elements = 0;  // whose bits differ
  int64_t first = -1;    // the first of them
  // Of those that have a finite one; nothing when the type has no numbers we know.
  std::optional<double> greatest;
  int64_t not_finite = 0;  // differences that are not: of NaN or infinity

  void Count(int64_t at) {
    if (elements++ == 0) first = at;
  }
  void Add(double difference) {
    if (!std::isfinite(difference)) {
      ++not_finite;
    } else {
      greatest = std::max(greatest.value_or(0), difference);
    }
  }
};

float Half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}
float Bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// |a - b| of two elements of `width` bytes; nothing for types without numbers.
template <typename T>
double Distance(const void* a, const void* b) {
  T x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  if constexpr (std::is_integral_v<T>) {
    // Of the greater less the smaller, which no type of 64 bits overflows.
    const T high = std::max(x, y), low = std::min(x, y);
    return static_cast<double>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  } else {
    return std::abs(static_cast<double>(x) - static_cast<double>(y));
  }
}
template <float (*kToFloat)(uint16_t)>
double Distance16(const void* a, const void* b) {
  uint16_t x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return std::abs(static_cast<double>(kToFloat(x)) - static_cast<double>(kToFloat(y)));
}

using DistanceFunction = double (*)(const void*, const void*);

// By TensorFlow's number of the type; null for those without numbers we know.
DistanceFunction DistanceOf(int32_t dtype) {
  switch (dtype) {
    case 1:
      return Distance<float>;
    case 2:
      return Distance<double>;
    case 3:
      return Distance<int32_t>;
    case 4:
    case 10:
      return Distance<uint8_t>;
    case 5:
      return Distance<int16_t>;
    case 6:
      return Distance<int8_t>;
    case 9:
      return Distance<int64_t>;
    case 14:
      return Distance16<Bfloat16>;
    case 17:
      return Distance<uint16_t>;
    case 19:
      return Distance16<Half>;
    case 22:
      return Distance<uint32_t>;
    case 23:
      return Distance<uint64_t>;
    default:
      return nullptr;
  }
}

absl::StatusOr<Difference> CompareBytes(const Side& a, const BundleEntry& in_a, const Side& b,
                                        const BundleEntry& in_b) {
  // One whole, the other piece by piece past it. Types whose width we do not know: as one element.
  std::string whole(static_cast<size_t>(in_a.size), '\0');
  EV_RETURN_IF_ERROR(
      a.bundle->Read(in_a, {reinterpret_cast<std::byte*>(whole.data()), whole.size()}));
  const int64_t elements = NumElements(in_a.shape);
  const size_t width =
      elements > 0 && in_a.size % elements == 0 ? static_cast<size_t>(in_a.size / elements) : 0;
  const DistanceFunction distance = DistanceOf(in_a.dtype);
  Difference difference;
  std::string rest;  // of an element that a piece cut in two
  int64_t at = 0;
  if (in_a.size != in_b.size || width == 0) {
    bool equal = in_a.size == in_b.size;
    EV_RETURN_IF_ERROR(b.bundle->Stream(in_b, [&](absl::Span<const std::byte> piece) {
      equal = equal && std::memcmp(whole.data() + at, piece.data(), piece.size()) == 0;
      at += static_cast<int64_t>(piece.size());
    }));
    if (!equal) difference.Count(0);
    return difference;
  }
  EV_RETURN_IF_ERROR(b.bundle->Stream(in_b, [&](absl::Span<const std::byte> piece) {
    rest.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    size_t done = 0;
    for (; rest.size() - done >= width; done += width, ++at) {
      const char* x = whole.data() + static_cast<size_t>(at) * width;
      const char* y = rest.data() + done;
      if (std::memcmp(x, y, width) == 0) continue;
      difference.Count(at);
      if (distance != nullptr) difference.Add(distance(x, y));
    }
    rest.erase(0, done);
  }));
  return difference;
}

absl::StatusOr<Difference> CompareTensors(const Side& a, const BundleEntry& in_a, const Side& b,
                                          const BundleEntry& in_b) {
  if (!in_a.is_string()) return CompareBytes(a, in_a, b, in_b);
  Difference difference;
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> x, a.bundle->ReadStrings(in_a));
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> y, b.bundle->ReadStrings(in_b));
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) difference.Count(static_cast<int64_t>(i));
  }
  return difference;
}

std::vector<int64_t> IndexOf(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i > 0; --i) {
    index[i - 1] = flat % shape[i - 1];
    flat /= shape[i - 1];
  }
  return index;
}

std::string TypeAndShape(const BundleEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), ShapeToString(entry.shape));
}

// What is kept beside the tensors, as text: strings are themselves, bytes are hexadecimal.
absl::StatusOr<std::string> MetadataText(const Side& side, const BundleEntry& entry) {
  if (entry.is_string()) {
    EV_ASSIGN_OR_RETURN(const std::vector<std::string> strings, side.bundle->ReadStrings(entry));
    return absl::StrJoin(strings, ",");
  }
  std::string bytes(static_cast<size_t>(entry.size), '\0');
  EV_RETURN_IF_ERROR(
      side.bundle->Read(entry, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  if (entry.dtype == static_cast<int32_t>(DType::kInt64) && bytes.size() == 8) {
    return absl::StrCat(LoadLittle<int64_t>(bytes.data()));
  }
  return bytes.size() == 16 ? BytesToDigest(bytes) : absl::BytesToHexString(bytes);
}

// Metadata as a list of fields: JSON objects field by field, the object graph as present or not.
absl::StatusOr<std::map<std::string, std::string>> Metadata(const Side& side) {
  std::map<std::string, std::string> fields;
  for (const auto& [name, entry] : side.metadata) {
    if (name == kObjectGraph) {
      EV_RETURN_IF_ERROR(MetadataText(side, *entry).status());
      fields["object graph"] = "stored";
      continue;
    }
    EV_ASSIGN_OR_RETURN(const std::string text, MetadataText(side, *entry));
    if (name == kSaveCounter) {
      fields[name] = text;
      continue;
    }
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const std::string own = name.substr(kMetadata.size());
    if (!json.is_object()) {
      fields[own] = text;
      continue;
    }
    for (const auto& [field, value] : json.items()) {
      fields[field] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return fields;
}

// Collects what differs, for people or for scripts.
class Report {
 public:
  void Tensor(const std::string& name, ordered_json json, const std::string& text) {
    json["name"] = name;
    list_.push_back(std::move(json));
    absl::StrAppend(&text_, name, ": ", text, "\n");
  }
  size_t size() const { return list_.size(); }
  const ordered_json& json() const { return list_; }
  const std::string& text() const { return text_; }

 private:
  ordered_json list_ = ordered_json::array();
  std::string text_;
};

void AddDifference(const std::string& name, const BundleEntry& entry, const Difference& difference,
                   Report* report) {
  const std::vector<int64_t> first = IndexOf(difference.first, entry.shape);
  ordered_json json = {{"what", "values"},
                       {"type", DTypeName(entry.dtype)},
                       {"shape", entry.shape},
                       {"elements", difference.elements},
                       {"first", first},
                       {"greatest", nullptr},
                       {"not_finite", difference.not_finite}};
  std::string text = absl::StrCat(TypeAndShape(entry), ", ", difference.elements, " of ",
                                  NumElements(entry.shape), " elements differ");
  if (difference.greatest.has_value()) {
    json["greatest"] = *difference.greatest;
    absl::StrAppend(&text, ", by up to ", *difference.greatest);
  }
  if (difference.not_finite > 0) {
    absl::StrAppend(&text, ", ", difference.not_finite, " by NaN or infinity");
  }
  absl::StrAppend(&text, ", the first at ", ShapeToString(first));
  report->Tensor(name, std::move(json), text);
}

absl::Status AddTensor(const std::string& name, const Side& a, const BundleEntry& in_a,
                       const Side& b, const BundleEntry& in_b, Report* report) {
  if (in_a.dtype != in_b.dtype || in_a.shape != in_b.shape) {
    report->Tensor(name, {{"what", "type"}, {"a", TypeAndShape(in_a)}, {"b", TypeAndShape(in_b)}},
                   absl::StrCat(TypeAndShape(in_a), " in A, ", TypeAndShape(in_b), " in B"));
    return absl::OkStatus();
  }
  EV_ASSIGN_OR_RETURN(const Difference difference, CompareTensors(a, in_a, b, in_b));
  if (difference.elements > 0) AddDifference(name, in_a, difference, report);
  return absl::OkStatus();
}

absl::Status CompareSides(const Side& a, const Side& b, Report* report) {
  for (const auto& [name, entry] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other != b.tensors.end()) {
      EV_RETURN_IF_ERROR(AddTensor(name, a, *entry, b, *other->second, report));
    } else {
      report->Tensor(name, {{"what", "only in a"}},
                     absl::StrCat("only in A, ", TypeAndShape(*entry)));
    }
  }
  for (const auto& [name, entry] : b.tensors) {
    if (a.tensors.count(name) != 0) continue;
    report->Tensor(name, {{"what", "only in b"}},
                   absl::StrCat("only in B, ", TypeAndShape(*entry)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> DiffCheckpoints(FileSystem& fs, const std::string& path_a,
                                     const std::string& path_b, bool json, std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const Side a, OpenSide(fs, path_a));
  EV_ASSIGN_OR_RETURN(const Side b, OpenSide(fs, path_b));
  Report report;
  EV_RETURN_IF_ERROR(CompareSides(a, b, &report));
  EV_ASSIGN_OR_RETURN(const auto metadata_a, Metadata(a));
  EV_ASSIGN_OR_RETURN(const auto metadata_b, Metadata(b));
  auto fields = metadata_a;
  fields.insert(metadata_b.begin(), metadata_b.end());
  ordered_json metadata = ordered_json::object();
  std::string text;
  bool digests_differ = false;
  for (const auto& [field, unused] : fields) {
    const auto in_a = metadata_a.find(field), in_b = metadata_b.find(field);
    const std::string x = in_a == metadata_a.end() ? "-" : in_a->second;
    const std::string y = in_b == metadata_b.end() ? "-" : in_b->second;
    if (x == y) continue;
    // Of a state that was not saved by us there is no digest to compare.
    digests_differ = digests_differ || (field == "digest" && x != "-" && y != "-");
    metadata[field] = {{"a", x}, {"b", y}};
    absl::StrAppend(&text, "(", field, ": ", x, " in A, ", y, " in B)\n");
  }
  const bool equal = report.size() == 0 && !digests_differ;
  if (json) {
    out << ordered_json({{"a", a.prefix},
                         {"b", b.prefix},
                         {"equal", equal},
                         {"tensors", report.json()},
                         {"metadata", metadata}})
               .dump(2, ' ', false, ordered_json::error_handler_t::replace)
        << "\n";
    return equal;
  }
  out << "A: " << a.prefix << "\nB: " << b.prefix << "\n" << report.text() << text;
  if (equal) {
    out << "equal: " << a.tensors.size() << (a.tensors.size() == 1 ? " tensor\n" : " tensors\n");
  } else {
    out << report.size() << (report.size() == 1 ? " tensor differs\n" : " tensors differ\n");
  }
  return equal;
}

}  // namespace everstep
