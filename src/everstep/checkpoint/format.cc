// checkpoint: the keys and the JSON.
#include "everstep/checkpoint/format.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/checkpoint/find.h"
#include "everstep/io/object_graph.h"

namespace everstep {

const char kMetaKey[] = "everstep/checkpoint";
const char kSaveCounterKey[] = "save_counter/.ATTRIBUTES/VARIABLE_VALUE";
const char kDigestKey[] = "everstep/digest";

namespace {

constexpr char kFormatFamily[] = "everstep.checkpoint.v";
constexpr char kFormat[] = "everstep.checkpoint.v2";

// A member of `json` when it has that name and is of type T.
template <typename T>
std::optional<T> Get(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!at->is_string()) return std::nullopt;
  } else {
    if (!at->is_number_integer()) return std::nullopt;
  }
  return at->template get<T>();
}

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string CheckpointPrefix(const std::string& directory) { return JoinPath(directory, "state"); }

std::string CheckpointMeta::ToJson() const {
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"digest", digest},
                                       {"step", id.step},
                                       {"history", id.history},
                                       {"view", id.view.ToString()},
                                       {"data", absl::StrCat(absl::Hex(id.data, absl::kZeroPad16))},
                                       {"fit_begin", id.fit_begin}};
  return json.dump();
}

absl::StatusOr<CheckpointMeta> CheckpointMeta::Parse(std::string_view text,
                                                     const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto damaged = [&where](const char* what) {
    return absl::DataLossError(absl::StrCat(where, ": ", kMetaKey, " ", what));
  };
  if (!json.is_object()) return damaged("is not a JSON object");
  const std::string format = Get<std::string>(json, "format").value_or("");
  if (format != kFormat) {
    if (!absl::StartsWith(format, kFormatFamily)) return damaged("names no format");
    return absl::UnimplementedError(
        absl::StrCat(where, ": is in format ", format, ", this program reads up to ", kFormat,
                     "; use the Everstep version that wrote it, or a newer one"));
  }
  CheckpointMeta meta;
  const auto digest = Get<std::string>(json, "digest");
  const auto step = Get<int64_t>(json, "step"), history = Get<int64_t>(json, "history");
  const auto view = Get<std::string>(json, "view");
  if (!digest || !IsDigest(*digest) || !step || !history || !view) {
    return damaged("lacks a member, or one is of another type");
  }
  // The same text as in a directory's name.
  const auto id = ParseCheckpointName(absl::StrCat("step-", *step, "-h", *history, "-v", *view));
  if (!id.has_value()) return damaged("has a step, history or view that cannot be");
  meta.digest = *digest;
  meta.id = *id;
  // Not in the first files of this version.
  const std::string data = Get<std::string>(json, "data").value_or("0");
  if (!absl::SimpleHexAtoi(data, &meta.id.data)) return damaged("has data that is no number");
  meta.id.fit_begin = Get<int64_t>(json, "fit_begin").value_or(0);
  return meta;
}

absl::Status AddCheckpoint(const CheckpointId& id, absl::Span<const TensorSpan> state,
                           const std::string& digest, BundleWriter* bundle) {
  EV_RETURN_IF_ERROR(bundle->AddString(kMetaKey, CheckpointMeta{digest, id}.ToJson()));
  EV_RETURN_IF_ERROR(bundle->AddInt64(kSaveCounterKey, id.step));
  std::vector<std::string> names = {*VariableName(kSaveCounterKey)};
  for (TensorSpan tensor : state) {
    if (tensor.name.empty()) {
      return absl::InvalidArgumentError("cannot save a tensor that has no name");
    }
    names.push_back(tensor.name);
    tensor.name = VariableKey(tensor.name);
    const absl::Status status = bundle->Add(tensor);
    // The user knows the tensor by its own name.
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("tensor \"", names.back(), "\""));
    }
  }
  return bundle->AddString(kObjectGraphKey, ObjectGraph(names));
}

}  // namespace everstep
