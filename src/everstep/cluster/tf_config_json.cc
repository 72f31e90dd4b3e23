// cluster: JSON with the place of each value, over RapidJSON's events.
#include "everstep/cluster/tf_config_json.h"

#include <cctype>

#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "rapidjson/error/en.h"
#include "rapidjson/memorystream.h"
#include "rapidjson/reader.h"

namespace everstep {
namespace {

// RapidJSON's events carry no places. Between the end of one event and the begin of the next there
// are only blanks, commas and colons; so the end of each, which the stream knows, is enough.
class Builder {
 public:
  Builder(std::string_view text, const rapidjson::MemoryStream& stream, JsonValue* root)
      : text_(text), stream_(stream), root_(root) {}

  bool Null() { return Add(JsonValue::kNull, "null"); }
  bool Bool(bool value) { return Add(JsonValue::kBool, value ? "true" : "false"); }
  bool RawNumber(const char* digits, rapidjson::SizeType size, bool) {
    return Add(JsonValue::kNumber, std::string(digits, size));
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return Add(JsonValue::kString, std::string(text, size));
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    key_.assign(text, size);
    key_offset_ = Begin();
    end_ = stream_.Tell();
    return true;
  }
  bool StartObject() { return Open(JsonValue::kObject); }
  bool StartArray() { return Open(JsonValue::kArray); }
  bool EndObject(rapidjson::SizeType) { return Close(); }
  bool EndArray(rapidjson::SizeType) { return Close(); }
  // Numbers come as they are written only.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }

  const std::optional<JsonError>& refusal() const { return refusal_; }

 private:
  size_t Begin() const {
    const size_t at = text_.find_first_not_of(" \t\r\n,:", end_);
    return at == std::string_view::npos ? text_.size() : at;
  }

  bool Refuse(const std::string& what, const std::string& cure) {
    refusal_ = JsonError{JsonError::kTooLarge, Begin(), what, cure};
    return false;
  }

  bool Add(JsonValue::Kind kind, std::string text) {
    if (++count_ > kMaxJsonValues) {
      return Refuse(absl::StrCat("more than ", kMaxJsonValues, " values"),
                    "no cluster needs so many");
    }
    JsonValue value;
    value.kind = kind;
    value.offset = Begin();
    value.text = std::move(text);
    end_ = stream_.Tell();
    if (open_.empty()) {
      *root_ = std::move(value);
      last_ = root_;
    } else {
      JsonValue* parent = open_.back();
      parent->members.push_back({std::move(key_), key_offset_, std::move(value)});
      last_ = &parent->members.back().value;
    }
    key_.clear();
    return true;
  }

  bool Open(JsonValue::Kind kind) {
    if (open_.size() >= kMaxJsonDepth) {
      return Refuse(absl::StrCat("nested deeper than ", kMaxJsonDepth),
                    "a cluster needs three levels");
    }
    if (!Add(kind, "")) return false;
    // Stays where it is: no value is added to its parent before it is closed.
    open_.push_back(last_);
    return true;
  }

  bool Close() {
    open_.pop_back();
    end_ = stream_.Tell();
    return true;
  }

  const std::string_view text_;
  const rapidjson::MemoryStream& stream_;
  JsonValue* const root_;
  JsonValue* last_ = nullptr;
  std::vector<JsonValue*> open_;
  std::string key_;
  size_t key_offset_ = 0;
  size_t end_ = 0;  // of the last event
  size_t count_ = 0;
  std::optional<JsonError> refusal_;
};

bool BeginsWith(std::string_view text, size_t at, std::string_view word) {
  return at <= text.size() && text.substr(at, word.size()) == word;
}

// RapidJSON stops somewhere in a word: where the word begins.
size_t BeginOfWord(std::string_view text, size_t at) {
  while (at > 0 &&
         (std::isalpha(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '-')) {
    --at;
  }
  return at;
}

std::string ShownCharacter(std::string_view text, size_t at) {
  const unsigned char c = static_cast<unsigned char>(text[at]);
  if (c > 0x20 && c < 0x7f)
    return absl::StrCat("'", text.substr(at, 1).data()[0] == '\'' ? "\\" : "",
                        std::string(1, static_cast<char>(c)), "'");
  return absl::StrCat("the byte 0x", absl::Hex(c, absl::kZeroPad2));
}

// The last byte before `at` that is no blank; 0 when there is none.
char Before(std::string_view text, size_t at) {
  const size_t found = at == 0 ? std::string_view::npos : text.find_last_not_of(" \t\r\n", at - 1);
  return found == std::string_view::npos ? '\0' : text[found];
}

JsonError Explain(std::string_view text, size_t at, const rapidjson::ParseResult& result) {
  JsonError error;
  if (at > text.size()) at = text.size();
  const size_t word = BeginOfWord(text, at);
  for (const std::string_view name : {"NaN", "Infinity", "-Infinity"}) {
    if (BeginsWith(text, word, name)) {
      return {JsonError::kNotANumber, word, absl::StrCat(ToAbsl(name), " is not JSON"),
              "write a number"};
    }
  }
  for (const std::string_view name : {"True", "False", "None"}) {
    if (BeginsWith(text, word, name)) {
      return {JsonError::kSyntax, word, absl::StrCat(ToAbsl(name), " is Python, not JSON"),
              "make the text with json.dumps()"};
    }
  }
  error.offset = at;
  if (at == text.size()) {
    error.what = "the JSON ends too early";
    error.cure = "it may have been cut; close what is open, quotes too";
  } else if (text[at] == '\0') {
    error.what = "a zero byte";
    error.cure = "leave it out";
  } else if (text[at] == '\'') {
    error.what = "single quotes, but JSON has double quotes";
    error.cure = "write \"name\", and the whole variable in single quotes for the shell";
  } else if ((text[at] == ']' || text[at] == '}') && Before(text, at) == ',') {
    error.what = absl::StrCat("a comma before ", ShownCharacter(text, at));
    error.cure = "leave the comma out";
  } else if (BeginsWith(text, at, "\xef\xbb\xbf")) {
    error.what = "a byte order mark";
    error.cure = "leave it out";
  } else if (result.Code() == rapidjson::kParseErrorDocumentRootNotSingular) {
    error.what = absl::StrCat("more text after the end, ", ShownCharacter(text, at));
    error.cure = "it must be one JSON object";
  } else {
    std::string why = rapidjson::GetParseError_En(result.Code());
    while (!why.empty() && why.back() == '.') why.pop_back();
    error.what = absl::StrCat("not JSON at ", ShownCharacter(text, at), " (", why, ")");
    error.cure = "see `everstep config make` for one that is right";
  }
  return error;
}

}  // namespace

const JsonMember* JsonValue::Find(std::string_view key) const {
  if (kind != kObject) return nullptr;
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    if (it->key == key) return &*it;
  }
  return nullptr;
}

const char* JsonValue::KindName() const {
  switch (kind) {
    case kNull:
      return "null";
    case kBool:
      return text == "true" ? "true" : "false";
    case kNumber:
      return "a number";
    case kString:
      return "a text";
    case kArray:
      return "a list";
    case kObject:
      return "an object";
  }
  return "";
}

std::optional<JsonError> ParseJson(std::string_view text, JsonValue* out) {
  if (text.size() > kMaxJsonBytes) {
    return JsonError{JsonError::kTooLarge, kMaxJsonBytes,
                     absl::StrCat(text.size(), " bytes, more than ", kMaxJsonBytes),
                     "no cluster needs so many"};
  }
  // RapidJSON would take it for the end.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return JsonError{JsonError::kSyntax, zero, "a zero byte", "leave it out"};
  }
  rapidjson::MemoryStream stream(text.data(), text.size());
  Builder builder(text, stream, out);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.refusal().has_value()) return builder.refusal();
  if (result.IsError()) return Explain(text, result.Offset(), result);
  return std::nullopt;
}

}  // namespace everstep
