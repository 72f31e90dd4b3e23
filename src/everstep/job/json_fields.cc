// job: JSON objects field by field.
#include "everstep/job/json_fields.h"

#include <cmath>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

// "1.3". False when it is none.
bool ParseView(const std::string& text, ViewId* view) {
  const size_t dot = text.find('.');
  return dot != std::string::npos && absl::SimpleAtoi(text.substr(0, dot), &view->term) &&
         absl::SimpleAtoi(text.substr(dot + 1), &view->id);
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseObject(std::string_view text, const char* format,
                                           const std::string& what) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(what, " is damaged: it is not a JSON object"));
  }
  const auto found = json.find("format");
  if (found == json.end() || !found->is_string()) {
    return absl::DataLossError(absl::StrCat(what, " is not of the format ", format));
  }
  if (*found != format) {
    return absl::DataLossError(absl::StrCat(what, " is of the format ", found->get<std::string>(),
                                            ", of which this version knows only ", format));
  }
  return json;
}

std::string Dump(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void FieldWriter::Put(const char* key, const std::string& value) {
  if (!value.empty()) json_[key] = value;
}
void FieldWriter::PutUnlessZero(const char* key, int64_t value) {
  if (value != 0) json_[key] = value;
}
void FieldWriter::PutIfTrue(const char* key, bool value) {
  if (value) json_[key] = true;
}
void FieldWriter::Put(const char* key, const std::vector<std::string>& values) {
  if (!values.empty()) json_[key] = values;
}
void FieldWriter::PutWords(const std::string& key, const std::vector<std::string>& words) {
  json_[key] = words;
  std::vector<std::string> hex;
  bool plain = true;
  for (const std::string& word : words) {
    const nlohmann::json read = nlohmann::json::parse(Dump(word), nullptr, false);
    plain = plain && read.is_string() && read.get<std::string>() == word;
    hex.push_back(absl::BytesToHexString(word));
  }
  if (!plain) json_[key + "_hex"] = hex;
}
void FieldWriter::Put(const char* key, ViewId view) {
  if (view != ViewId{}) json_[key] = view.ToString();
}

const nlohmann::json* FieldReader::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

void FieldReader::Check(const char* key, bool good) {
  if (!good && bad_.empty()) bad_ = key;
}

void FieldReader::Get(const char* key, std::string* value) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  Check(key, field->is_string());
  if (field->is_string()) *value = field->get<std::string>();
}

void FieldReader::Get(const char* key, int64_t* value) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  // The library keeps numbers that are not negative as unsigned ones.
  const bool good = field->is_number_integer() &&
                    (!field->is_number_unsigned() ||
                     field->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  Check(key, good);
  if (good) *value = field->get<int64_t>();
}

void FieldReader::Get(const char* key, int* value) {
  int64_t wide = *value;
  Get(key, &wide);
  const bool good =
      wide >= std::numeric_limits<int>::min() && wide <= std::numeric_limits<int>::max();
  Check(key, good);
  if (good) *value = static_cast<int>(wide);
}

void FieldReader::Get(const char* key, uint64_t* value) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  Check(key, field->is_number_unsigned());
  if (field->is_number_unsigned()) *value = field->get<uint64_t>();
}

void FieldReader::Get(const char* key, bool* value) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  Check(key, field->is_boolean());
  if (field->is_boolean()) *value = field->get<bool>();
}

void FieldReader::Get(const char* key, double* value) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  Check(key, field->is_number() || field->is_null());
  if (field->is_number()) *value = field->get<double>();
  if (field->is_null()) *value = std::nan("");
}

void FieldReader::Get(const char* key, std::vector<std::string>* values) {
  const nlohmann::json* field = Find(key);
  if (field == nullptr) return;
  Check(key, field->is_array());
  if (!field->is_array()) return;
  values->clear();
  for (const nlohmann::json& element : *field) {
    Check(key, element.is_string());
    if (element.is_string()) values->push_back(element.get<std::string>());
  }
}

void FieldReader::GetWords(const std::string& key, std::vector<std::string>* words) {
  Get(key.c_str(), words);
  std::vector<std::string> hex;
  Get((key + "_hex").c_str(), &hex);
  if (hex.empty()) return;
  words->clear();
  for (const std::string& word : hex) {
    const bool good =
        word.size() % 2 == 0 && word.find_first_not_of("0123456789abcdef") == std::string::npos;
    Check(key.c_str(), good);
    if (good) words->push_back(absl::HexStringToBytes(word));
  }
}

void FieldReader::Get(const char* key, ViewId* view) {
  std::string text;
  Get(key, &text);
  if (!text.empty()) Check(key, ParseView(text, view));
}

absl::Status FieldReader::status(const std::string& what) const {
  if (bad_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(what, " is damaged: its \"", bad_, "\" is not as it ", "should be"));
}

}  // namespace everstep
