// job: JSON objects written and read field by field, for the files of a job directory. Fields that
// say nothing are left out; a field of another type makes the whole unreadable. Internal to the
// room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/base/view.h"
#include "nlohmann/json.hpp"

namespace everstep {

// `text` as a JSON object whose "format" is `format`. kDataLoss, with `what` (a path, or what the
// text should be) at the front: it is none, or of a format that this version does not know.
absl::StatusOr<nlohmann::json> ParseObject(std::string_view text, const char* format,
                                           const std::string& what);

// One line without its newline when `indent` is -1. Bytes that are no UTF-8 are replaced.
std::string Dump(const nlohmann::ordered_json& json, int indent = -1);

class FieldWriter {
 public:
  explicit FieldWriter(const char* format) { json_["format"] = format; }

  void Put(const char* key, const std::string& value);  // unless empty
  void Put(const char* key, int64_t value) { json_[key] = value; }
  void PutUnlessZero(const char* key, int64_t value);
  void PutIfTrue(const char* key, bool value);
  void Put(const char* key, const std::vector<std::string>& values);  // unless empty
  // Of any bytes: where one is no UTF-8, KEY_hex has them all once more, exactly.
  void PutWords(const std::string& key, const std::vector<std::string>& words);
  void PutNumber(const char* key, double value) { json_[key] = value; }
  void Put(const char* key, ViewId view);  // unless zero
  template <typename T>
  void PutOptional(const char* key, const std::optional<T>& value) {
    if (value.has_value()) json_[key] = *value;
  }
  nlohmann::ordered_json& json() { return json_; }

 private:
  nlohmann::ordered_json json_;
};

// What is not there leaves the value as it was.
class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& object) : object_(object) {}

  void Get(const char* key, std::string* value);
  void Get(const char* key, int64_t* value);
  void Get(const char* key, int* value);
  void Get(const char* key, uint64_t* value);
  void Get(const char* key, bool* value);
  void Get(const char* key, double* value);  // null, which stands for "not a number", too
  void Get(const char* key, std::vector<std::string>* values);
  void GetWords(const std::string& key, std::vector<std::string>* words);
  void Get(const char* key, ViewId* view);
  template <typename T>
  void Get(const char* key, std::optional<T>* value) {
    if (Find(key) == nullptr) return;
    value->emplace();
    Get(key, &**value);
  }

  void Require(const char* key) { Check(key, Find(key) != nullptr); }
  // Null when it is not there.
  const nlohmann::json* Find(const char* key) const;
  void Check(const char* key, bool good);

  // kDataLoss, with `what` at the front and the first bad field named.
  absl::Status status(const std::string& what) const;

 private:
  const nlohmann::json& object_;
  std::string bad_;
};

}  // namespace everstep
