// io: tf.train.Example on the wire.
#include "everstep/io/example.h"

#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/io/bytes.h"

namespace everstep {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

// One field of a message: `value` is the payload of a delimited or fixed field.
struct Field {
  uint32_t number = 0;
  uint32_t type = 0;
  uint64_t varint = 0;
  std::string_view value;
};

// Takes one field off the front of `*in`; false when the bytes are no field.
bool TakeField(std::string_view* in, Field* field) {
  uint64_t tag = 0;
  // Tags of one byte are all that Examples have.
  if (!in->empty() && static_cast<uint8_t>(in->front()) < 0x80) {
    tag = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
  } else if (!TakeVarint(in, &tag)) {
    return false;
  }
  if (tag < 8 || tag > UINT32_MAX) return false;
  field->number = static_cast<uint32_t>(tag) >> 3;
  field->type = static_cast<uint32_t>(tag) & 7;
  uint64_t length = 0;
  switch (field->type) {
    case kVarint:
      return TakeVarint(in, &field->varint);
    case kFixed64:
      length = 8;
      break;
    case kFixed32:
      length = 4;
      break;
    case kDelimited:
      if (!TakeVarint(in, &length)) return false;
      break;
    default:  // groups: no writer of Examples has ever used them
      return false;
  }
  if (length > in->size()) return false;
  field->value = in->substr(0, length);
  in->remove_prefix(length);
  return true;
}

absl::Status NoExample(std::string_view where) {
  return absl::DataLossError(
      absl::StrCat("not a tf.train.Example (", std::string(where), " does not parse)"));
}

// Calls on(chunk or element) for each `value` field of the lists in `lists`, which is a run of
// Feature fields of one kind. False when something does not parse.
template <typename OnField>
bool ForEachValue(std::string_view lists, OnField on) {
  Field list, value;
  while (!lists.empty()) {
    if (!TakeField(&lists, &list)) return false;
    if (list.number < 1 || list.number > 3 || list.type != kDelimited) continue;
    while (!list.value.empty()) {
      if (!TakeField(&list.value, &value)) return false;
      if (value.number == 1 && !on(value)) return false;
    }
  }
  return true;
}

// The values of an int64 list one after another.
template <typename OnValue>
bool ForEachInt64(std::string_view lists, OnValue on) {
  return ForEachValue(lists, [&](Field& field) {
    if (field.type == kVarint) {
      on(static_cast<int64_t>(field.varint));
      return true;
    }
    if (field.type != kDelimited) return true;  // another type: unknown field, as protobuf has it
    uint64_t value = 0;
    while (!field.value.empty()) {
      if (!TakeVarint(&field.value, &value)) return false;
      on(static_cast<int64_t>(value));
    }
    return true;
  });
}

// The values of a float list, packed chunks at once.
template <typename OnChunk>
bool ForEachFloats(std::string_view lists, OnChunk on) {
  return ForEachValue(lists, [&](const Field& field) {
    if (field.type != kDelimited && field.type != kFixed32) return true;
    if (field.value.size() % sizeof(float) != 0) return false;
    on(field.value);
    return true;
  });
}

template <typename OnValue>
bool ForEachBytes(std::string_view lists, OnValue on) {
  return ForEachValue(lists, [&](const Field& field) {
    if (field.type == kDelimited) on(field.value);
    return true;
  });
}

}  // namespace

// Makes FeatureViews; the only one that may.
class ExampleParser {
 public:
  using Visit = absl::FunctionRef<absl::Status(std::string_view name, std::string_view feature)>;

  // Example -> Features -> entries. Several `features` fields merge, as protobuf has it.
  static absl::Status ForEachEntry(std::string_view example, Visit visit) {
    Field features, entry;
    while (!example.empty()) {
      if (!TakeField(&example, &features)) return NoExample("the record");
      if (features.number != 1 || features.type != kDelimited) continue;
      while (!features.value.empty()) {
        if (!TakeField(&features.value, &entry)) return NoExample("the features");
        if (entry.number != 1 || entry.type != kDelimited) continue;
        EV_RETURN_IF_ERROR(VisitEntry(entry.value, visit));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status View(std::string_view name, std::string_view feature, FeatureView* view) {
    *view = FeatureView();
    Field field;
    for (std::string_view rest = feature; !rest.empty();) {
      const std::string_view from_here = rest;
      if (!TakeField(&rest, &field)) return BadFeature(name);
      if (field.number < 1 || field.number > 3 || field.type != kDelimited) continue;
      const auto kind = static_cast<FeatureView::Kind>(field.number);
      if (kind == view->kind_) continue;
      // A oneof: another kind replaces what came before.
      view->kind_ = kind;
      view->lists_ = from_here;
    }
    return Count(view) ? absl::OkStatus() : BadFeature(name);
  }

 private:
  static absl::Status VisitEntry(std::string_view entry, Visit visit) {
    std::string_view name, feature;
    int values = 0;
    Field field;
    while (!entry.empty()) {
      if (!TakeField(&entry, &field)) return NoExample("an entry of the features");
      if (field.type != kDelimited) continue;
      if (field.number == 1) name = field.value;
      if (field.number == 2) {
        feature = field.value;
        ++values;
      }
    }
    // Protobuf would merge them; refusing beats reading something else than it does.
    if (values > 1) return NoExample("an entry with two values");
    return visit(name, feature);
  }

  static bool Count(FeatureView* view) {
    int64_t n = 0;
    bool good = true;
    switch (view->kind_) {
      case FeatureView::Kind::kMissing:
        break;
      case FeatureView::Kind::kBytes:
        good = ForEachBytes(view->lists_, [&](std::string_view) { ++n; });
        break;
      case FeatureView::Kind::kFloat:
        good = ForEachFloats(view->lists_, [&](std::string_view chunk) {
          n += static_cast<int64_t>(chunk.size() / sizeof(float));
        });
        break;
      case FeatureView::Kind::kInt64:
        good = ForEachInt64(view->lists_, [&](int64_t) { ++n; });
        break;
    }
    view->size_ = n;
    return good;
  }

  static absl::Status BadFeature(std::string_view name) {
    return NoExample(absl::StrCat("feature \"", std::string(name.substr(0, 100)), "\""));
  }
};

const char* FeatureView::NameOf(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "bytes list";
    case Kind::kFloat:
      return "float list";
    case Kind::kInt64:
      return "int64 list";
    default:
      return "missing";
  }
}

void FeatureView::CopyInt64s(absl::Span<int64_t> out) const {
  size_t i = 0;
  ForEachInt64(lists_, [&](int64_t value) { out[i++] = value; });
}

void FeatureView::CopyFloats(absl::Span<float> out) const {
  auto* at = reinterpret_cast<char*>(out.data());
  ForEachFloats(lists_, [&](std::string_view chunk) {
    if (!chunk.empty()) std::memcpy(at, chunk.data(), chunk.size());
    at += chunk.size();
  });
}

void FeatureView::CopyBytes(absl::Span<std::string_view> out) const {
  size_t i = 0;
  ForEachBytes(lists_, [&](std::string_view value) { out[i++] = value; });
}

absl::Status FindFeatures(std::string_view example, absl::Span<const std::string_view> names,
                          absl::Span<FeatureView> out) {
  for (FeatureView& view : out) view = FeatureView();
  return ExampleParser::ForEachEntry(example, [&](std::string_view name, std::string_view feature) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) EV_RETURN_IF_ERROR(ExampleParser::View(name, feature, &out[i]));
    }
    return absl::OkStatus();
  });
}

absl::Status ForEachFeature(
    std::string_view example,
    absl::FunctionRef<void(std::string_view name, const FeatureView& view)> visit) {
  return ExampleParser::ForEachEntry(example, [&](std::string_view name, std::string_view feature) {
    FeatureView view;
    EV_RETURN_IF_ERROR(ExampleParser::View(name, feature, &view));
    visit(name, view);
    return absl::OkStatus();
  });
}

namespace {

void AppendDelimited(std::string* out, int field, std::string_view value) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3 | kDelimited);
  AppendVarint(out, value.size());
  out->append(value);
}

}  // namespace

void ExampleBuilder::AddFeature(std::string_view name, int kind_field, const std::string& list) {
  std::string feature, entry;
  AppendDelimited(&feature, kind_field, list);
  AppendDelimited(&entry, 1, name);
  AppendDelimited(&entry, 2, feature);
  AppendDelimited(&features_, 1, entry);
}

void ExampleBuilder::AddBytes(std::string_view name, absl::Span<const std::string_view> values) {
  std::string list;
  for (std::string_view value : values) AppendDelimited(&list, 1, value);
  AddFeature(name, 1, list);
}

void ExampleBuilder::AddFloats(std::string_view name, absl::Span<const float> values) {
  std::string list;
  if (!values.empty()) {
    AppendDelimited(&list, 1, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }
  AddFeature(name, 2, list);
}

void ExampleBuilder::AddInt64s(std::string_view name, absl::Span<const int64_t> values) {
  std::string packed, list;
  for (int64_t value : values) AppendVarint(&packed, static_cast<uint64_t>(value));
  if (!values.empty()) AppendDelimited(&list, 1, packed);
  AddFeature(name, 3, list);
}

std::string ExampleBuilder::Finish() {
  std::string example;
  AppendDelimited(&example, 1, features_);
  features_.clear();
  return example;
}

}  // namespace everstep
