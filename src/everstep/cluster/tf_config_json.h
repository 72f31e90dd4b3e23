// cluster: JSON with the place of each value, as TF_CONFIG's findings need it. Numbers stay as they
// are written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace everstep {

struct JsonMember;

struct JsonValue {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = kNull;
  size_t offset = 0;                // of its first byte in the text
  std::string text;                 // a string's characters; a number, true and false as written
  std::vector<JsonMember> members;  // of objects, in their order; of arrays, without keys

  // The last member of that name, which is the one Python takes; null when there is none.
  const JsonMember* Find(std::string_view key) const;
  const char* KindName() const;  // "a number", "null", ...
};

struct JsonMember {
  std::string key;
  size_t key_offset = 0;
  JsonValue value;
};

struct JsonError {
  enum Kind { kSyntax, kNotANumber, kTooLarge };
  Kind kind = kSyntax;
  size_t offset = 0;  // at most the text's size
  std::string what;   // never quotes more than one character of the text, or a word of JSON's kin
  std::string cure;
};

constexpr size_t kMaxJsonBytes = size_t{1} << 20;
constexpr int kMaxJsonDepth = 32;
constexpr size_t kMaxJsonValues = 250000;

// Returns what is wrong; nothing when `out` is the text's value.
std::optional<JsonError> ParseJson(std::string_view text, JsonValue* out);

}  // namespace everstep
