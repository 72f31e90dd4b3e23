// cli: a TF_CONFIG in a file.
#include "everstep/cli/config_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr size_t kShown = 100;     // bytes of a line
constexpr size_t kBefore = 60;     // of these in front of the place, when the line is longer
constexpr size_t kMostDigits = 5;  // of a number that is shown, as ports have
constexpr size_t kSecretRun = 20;  // letters and digits without a break: no name of a host

// Behind "TF_CONFIG=" when the line from `begin` sets the variable, else npos.
size_t ValueAt(const std::string& all, size_t begin) {
  absl::string_view rest = absl::string_view(all).substr(begin);
  rest = absl::StripLeadingAsciiWhitespace(rest.substr(0, rest.find('\n')));
  if (absl::ConsumePrefix(&rest, "export ") || absl::ConsumePrefix(&rest, "export\t")) {
    rest = absl::StripLeadingAsciiWhitespace(rest);
  }
  if (!absl::ConsumePrefix(&rest, "TF_CONFIG=")) return std::string::npos;
  return static_cast<size_t>(rest.data() - all.data());
}

void Take(const std::string& all, size_t i, ConfigText* text) {
  text->value += all[i];
  text->at.push_back(i);
}

// The value as a shell reads it from `begin` on. Unquoted it goes to the end of the line, as in
// docker's --env-file, unless quotes follow. An end of the text within quotes ends the value.
void TakeQuoted(const std::string& all, size_t begin, ConfigText* text) {
  char quote = '\0';
  const bool bare = begin < all.size() && all[begin] != '\'' && all[begin] != '"';
  size_t i = begin;
  for (; i < all.size(); ++i) {
    const char c = all[i];
    if (bare) {
      if (c == '\n') break;
      Take(all, i, text);
    } else if (quote == '\0') {
      if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '\\' && i + 1 < all.size()) {
        Take(all, ++i, text);
      } else if (absl::ascii_isspace(static_cast<unsigned char>(c)) || c == ';') {
        break;
      } else {
        Take(all, i, text);
      }
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '"' && c == '\\' && i + 1 < all.size() &&
               std::string("\"\\$`").find(all[i + 1]) != std::string::npos) {
      Take(all, ++i, text);
    } else {
      Take(all, i, text);
    }
  }
  while (bare && !text->value.empty() &&
         absl::ascii_isspace(static_cast<unsigned char>(text->value.back()))) {
    text->value.pop_back();
    text->at.pop_back();
  }
  text->at.push_back(text->at.empty() ? begin : text->at.back() + 1);
}

int LineOf(const std::string& all, size_t at) {
  return 1 + static_cast<int>(std::count(all.begin(), all.begin() + at, '\n'));
}

size_t StartOfLine(const std::string& text, int line) {
  size_t start = 0;
  for (; line > 1; --line) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) return text.size();
    start = end + 1;
  }
  return start;
}

// What stands outside of strings and is no name: nothing that somebody could keep secret.
bool IsHarmlessWord(absl::string_view word) {
  for (const char* known : {"true", "false", "null", "True", "False", "None", "NaN", "Infinity"}) {
    if (word == known) return true;
  }
  return word.size() <= kMostDigits &&
         word.find_first_not_of("0123456789") == absl::string_view::npos;
}

bool IsHarmlessString(const std::string& body) {
  return body.size() <= 1 || IsHarmlessWord(body) || IsKnownWord(body) || IsPlainAddress(body);
}

// Which bytes of `value` must not be shown: the bodies of strings and the words outside that are
// not harmless, and what belongs to a key that is not. It takes any text: where a quote is missing,
// inside and outside change places, but neither shows more than the other.
std::vector<bool> Masked(const std::string& value) {
  std::vector<bool> masked(value.size(), false);
  const auto mask = [&](size_t from, size_t to) {
    std::fill(masked.begin() + from, masked.begin() + to, true);
  };
  bool last_masked = false, of_masked_key = false;
  for (size_t i = 0; i < value.size();) {
    const char c = value[i];
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (absl::StrContains("{}[],", absl::string_view(&c, 1))) {
      last_masked = of_masked_key = false;
      ++i;
      continue;
    }
    if (c == ':') {
      of_masked_key = last_masked;
      ++i;
      continue;
    }
    size_t begin = i, end = i;
    bool harmless = false;
    if (c == '"') {
      begin = end = i + 1;
      while (end < value.size() && value[end] != '"') end += value[end] == '\\' ? 2 : 1;
      end = std::min(end, value.size());
      harmless = IsHarmlessString(value.substr(begin, end - begin));
      i = end + 1;
    } else {
      while (end < value.size() && !absl::ascii_isspace(static_cast<unsigned char>(value[end])) &&
             !absl::StrContains("{}[],:\"", absl::string_view(&value[end], 1))) {
        ++end;
      }
      harmless = IsHarmlessWord(absl::string_view(value).substr(begin, end - begin));
      i = end;
    }
    last_masked = !harmless || of_masked_key;
    if (last_masked) mask(begin, end);
  }
  return masked;
}

// The same for all of the text: what a shell takes away stands between two bytes of the value.
std::vector<bool> MaskedInAll(const ConfigText& text, const std::vector<bool>& masked) {
  std::vector<bool> all(text.all.size(), false);
  for (size_t i = 0; i < masked.size(); ++i) {
    if (!masked[i]) continue;
    const size_t from = text.at[i];
    const size_t to = i + 1 < masked.size() && masked[i + 1] ? text.at[i + 1] : from + 1;
    std::fill(all.begin() + from, all.begin() + std::min(to, all.size()), true);
  }
  return all;
}

// As far as it could be read; beyond, a string may be anything.
bool IsOfUnreadable(const Finding& finding) {
  return finding.code == "EV102" || finding.code == "EV103" || finding.code == "EV104";
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

ConfigText PlainConfig(std::string all) {
  ConfigText text;
  text.at.resize(all.size() + 1);
  for (size_t i = 0; i <= all.size(); ++i) text.at[i] = i;
  text.value = all;
  text.all = std::move(all);
  return text;
}

ConfigText UnwrapConfig(std::string all) {
  ConfigText text;
  int set = 0;
  size_t value_at = 0;
  const absl::string_view content = absl::StripLeadingAsciiWhitespace(absl::string_view(all));
  // In a JSON text no line begins so.
  if (!absl::StartsWith(content, "{") && !absl::StartsWith(content, "[")) {
    for (size_t begin = 0; begin < all.size();) {
      const size_t at = ValueAt(all, begin);
      if (at != std::string::npos) {
        ++set;
        value_at = at;
      }
      const size_t end = all.find('\n', begin);
      begin = end == std::string::npos ? all.size() : end + 1;
    }
  }
  if (set == 0) return PlainConfig(std::move(all));
  TakeQuoted(all, value_at, &text);
  text.note = absl::StrCat("taken out of TF_CONFIG=... in line ", LineOf(all, value_at),
                           set > 1 ? ", the last of several" : "");
  text.all = std::move(all);
  return text;
}

void MovePlaces(const ConfigText& text, std::vector<Finding>* findings) {
  for (Finding& finding : *findings) {
    if (finding.line <= 0) continue;
    const size_t in_value = StartOfLine(text.value, finding.line) + std::max(finding.column, 1) - 1;
    const size_t at = text.at[std::min(in_value, text.at.size() - 1)];
    finding.line = LineOf(text.all, at);
    finding.column = static_cast<int>(at - StartOfLine(text.all, finding.line)) + 1;
  }
}

bool MayHoldSecret(const std::string& text) {
  if (HoldsCredentials(text)) return true;
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word :
       {"@", "token", "secret", "passw", "pwd", "bearer", "api_key", "apikey", "api-key",
        "credential", "akia", "private", "auth", "signature", "pass", "key=", "pw"}) {
    if (absl::StrContains(lower, word)) return true;
  }
  size_t run = 0;
  bool digit = false;
  for (unsigned char c : text) {
    const bool part = absl::ascii_isalnum(c) || c == '+' || c == '=';
    run = part ? run + 1 : 0;
    digit = part && (digit || absl::ascii_isdigit(c));
    if (run >= kSecretRun && digit) return true;
  }
  return false;
}

std::string Excerpt(const ConfigText& text, const Finding& finding) {
  if (finding.line <= 0 || finding.column <= 0) return "";
  // Of the line only what belongs to the value: another variable may stand beside it.
  const size_t line = StartOfLine(text.all, finding.line);
  const size_t begin = std::max(line, text.at.front());
  const size_t end = std::min(std::min(text.all.find('\n', line), text.at.back()), text.all.size());
  const size_t at = line + finding.column - 1;
  if (begin >= end || at < begin || at > end) return "";
  if (MayHoldSecret(text.all.substr(begin, end - begin))) return "";
  const std::vector<bool> in_value = Masked(text.value);
  if (IsOfUnreadable(finding) &&
      std::find(in_value.begin(), in_value.end(), true) != in_value.end()) {
    return "";
  }
  const std::vector<bool> masked = MaskedInAll(text, in_value);
  size_t from = begin, to = end;
  if (end - begin > kShown) {
    if (at - begin > kBefore) from = at - kBefore;
    to = std::min(end, from + kShown);
    while (from > begin && IsContinuation(text.all[from])) --from;
    while (to < end && IsContinuation(text.all[to])) ++to;
  }
  std::string shown = from > begin ? "..." : "";
  std::string caret(shown.size(), ' ');
  for (size_t i = from; i < to; ++i) {
    const unsigned char c = text.all[i];
    if (masked[i]) {
      if (i > from && masked[i - 1]) continue;
      shown += "...";
      const size_t past = std::find(masked.begin() + i, masked.end(), false) - masked.begin();
      if (past <= at) caret += "   ";
      continue;
    }
    shown += c < 0x20 || c == 0x7F ? ' ' : static_cast<char>(c);
    if (i < at && !IsContinuation(text.all[i])) caret += ' ';
  }
  return absl::StrCat("    ", shown, to < end ? "..." : "", "\n    ", caret, "^\n");
}

}  // namespace everstep
