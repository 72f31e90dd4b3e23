// cluster: what must not be printed.
#include "everstep/cluster/tf_config_secret.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

constexpr size_t kLongRun =
    32;  // letters and digits of a key; names of hosts have dots and hyphens
constexpr size_t kMaxQuoted = 60;
constexpr size_t kMaxNumber = 24;
constexpr size_t kWordRun = 20;       // letters and digits of one word of a host's name
constexpr size_t kShortest = 3;       // no secret is so short
constexpr size_t kMaxPortDigits = 6;  // one more than right ports have
constexpr std::string_view kAssigned[] = {"token",     "password", "passwd",    "pwd",
                                          "secret",    "api_key",  "apikey",    "access_key",
                                          "accesskey", "api-key",  "credential"};
// Others hold these, too, so only as whole words of a name, or with '=' behind.
constexpr std::string_view kAssignedWords[] = {"pass", "auth", "private", "key", "pw", "pin"};
// What a TF_CONFIG may hold and everybody may see.
constexpr std::string_view kWords[] = {
    "cluster", "task",        "type",    "index",           "chief", "worker", "ps",
    "master",  "evaluator",   "rpc",     "layer",           "grpc",  "verbs",  "gdr",
    "mpi",     "environment", "cloud",   "local",           "job",   "name",   "session",
    "service", "spec",        "server",  "clusterspec",     "id",    "idx",    "rank",
    "role",    "parameter",   "eval",    "parameterserver", "host",  "port",   "localhost",
    "tf",      "config",      "address", "version"};
// Parts of names, not of values.
constexpr std::string_view kNameWords[] = {"my",     "user",    "api",
                                           "access", "private", "authorization"};
// Beginnings that only keys have, and how many letters or digits follow at least.
struct Form {
  std::string_view begin;
  size_t more;
};
constexpr Form kForms[] = {{"AKIA", 12},        {"ASIA", 12}, {"ghp_", 12}, {"gho_", 12},
                           {"github_pat_", 12}, {"xoxb-", 8}, {"xoxp-", 8}, {"sk-", 16},
                           {"hf_", 16},         {"eyJ", 16},  {"AIza", 16}, {"glpat-", 12},
                           {"-----BEGIN", 0}};

bool IsKeyCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool HasPasswordBeforeHost(std::string_view text) {
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    const size_t begin = text.find_last_of("/ ,\t\n", at);
    const size_t from = begin == std::string_view::npos ? 0 : begin + 1;
    const size_t colon = text.substr(from, at - from).find(':');
    if (colon != std::string_view::npos && from + colon + 1 < at) return true;
  }
  return false;
}

bool HasAssignment(const std::string& lower) {
  std::vector<std::string_view> words(std::begin(kAssigned), std::end(kAssigned));
  words.insert(words.end(), std::begin(kAssignedWords), std::end(kAssignedWords));
  for (const std::string_view word : words) {
    for (size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
      const size_t next = lower.find_first_not_of(" \t", at + word.size());
      if (next != std::string::npos && lower[next] == '=') return true;
    }
  }
  return lower.find("bearer ") != std::string::npos || lower.find("basic ") != std::string::npos;
}

bool HasKeyForm(std::string_view text) {
  for (const Form& form : kForms) {
    for (size_t at = text.find(form.begin); at != std::string_view::npos;
         at = text.find(form.begin, at + 1)) {
      if (at > 0 && IsKeyCharacter(text[at - 1])) continue;  // "task-...", not "sk-..."
      const size_t from = at + form.begin.size();
      const std::string_view rest = text.substr(from);
      const size_t run = std::find_if_not(rest.begin(), rest.end(), IsKeyCharacter) - rest.begin();
      if (run >= form.more) return true;
    }
  }
  return false;
}

bool HasLongRun(std::string_view text) {
  size_t run = 0;
  bool digit = false, letter = false;
  for (const unsigned char c : text) {
    const bool is_digit = std::isdigit(c) != 0, is_letter = std::isalpha(c) != 0;
    if (!is_digit && !is_letter && c != '+' && c != '/' && c != '=' && c != '_') {
      run = 0;
      digit = letter = false;
      continue;
    }
    digit = digit || is_digit;
    letter = letter || is_letter;
    if (++run >= kLongRun && digit && letter) return true;
  }
  return false;
}

template <size_t n>
bool IsOneOf(std::string_view text, const std::string_view (&words)[n]) {
  return std::find(std::begin(words), std::end(words), text) != std::end(words);
}

std::vector<std::string> WordsOf(std::string_view text) {
  return absl::StrSplit(absl::AsciiStrToLower(ToAbsl(text)), absl::ByAnyChar("_-+"));
}

bool HasSecretWord(std::string_view key) {
  const std::vector<std::string> words = WordsOf(key);
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return IsOneOf(word, kAssignedWords); });
}

// "workers" is known, too.
bool IsKnown(std::string_view word) {
  return IsOneOf(word, kWords) || (word.size() > kShortest && word.back() == 's' &&
                                   IsOneOf(word.substr(0, word.size() - 1), kWords));
}

bool IsPlainCharacter(unsigned char c) { return c > 0x20 && c < 0x7f && c != '\'' && c != '\\'; }

// Digits and what people write around them.
bool IsNumberLike(std::string_view text) {
  return text.size() <= kMaxNumber && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isdigit(c) != 0 ||
                  std::string_view("+-._ eEx").find(c) != std::string_view::npos;
         });
}

bool HasLongWord(std::string_view text) {
  size_t run = 0;
  bool digit = false;
  for (const unsigned char c : text) {
    run = std::isalnum(c) != 0 ? run + 1 : 0;
    digit = run > 0 && (digit || std::isdigit(c) != 0);
    if (run >= kWordRun && digit) return true;
  }
  return false;
}

// Of an IP address, perhaps with brackets and port, or what was meant as one: no longer groups.
bool IsIpLike(std::string_view text) {
  size_t letters = 0, run = 0, separators = 0;
  for (const unsigned char c : text) {
    if (c == ':' || c == '.' || c == '[' || c == ']') {
      letters = run = 0;
      ++separators;
      continue;
    }
    if (std::isxdigit(c) == 0) return false;
    letters += std::isalpha(c) != 0 ? 1 : 0;
    if (++run > 5 || (run > 4 && letters > 0)) return false;
  }
  return separators >= 2;
}

}  // namespace

bool IsPlainAddress(std::string_view text) {
  if (LooksLikeSecret(text) || HasLongWord(text)) return false;
  if (IsIpLike(text)) return true;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= kMaxPortDigits &&
                      port.find_first_not_of("0123456789") == std::string_view::npos;
  return number && std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

bool IsKnownWord(std::string_view text) {
  const std::vector<std::string> words = WordsOf(text);
  return std::all_of(words.begin(), words.end(),
                     [](const std::string& word) { return IsKnown(word); });
}

bool IsKnownName(std::string_view key) {
  const std::vector<std::string> words = WordsOf(key);
  return std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return IsKnown(word) || IsOneOf(word, kNameWords) || IsOneOf(word, kAssigned) ||
           IsOneOf(word, kAssignedWords);
  });
}

bool HoldsCredentials(std::string_view text) {
  return HasPasswordBeforeHost(text) || HasAssignment(absl::AsciiStrToLower(ToAbsl(text))) ||
         HasKeyForm(text);
}

bool LooksLikeSecret(std::string_view text) { return HoldsCredentials(text) || HasLongRun(text); }

bool IsNameOfSecret(std::string_view key) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(key));
  return std::any_of(
             std::begin(kAssigned), std::end(kAssigned),
             [&](std::string_view word) { return lower.find(word) != std::string::npos; }) ||
         HasSecretWord(key);
}

std::string Shown(std::string_view text) {
  if (LooksLikeSecret(text)) return "(not shown: it looks like a secret)";
  const bool plain =
      IsPlainAddress(text) || IsNumberLike(text) || IsKnownWord(text) ||
      (text.size() <= kShortest && std::all_of(text.begin(), text.end(), IsPlainCharacter));
  if (!plain) return "'...'";
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("'", absl::CHexEscape(ToAbsl(text.substr(0, kMaxQuoted))), cut ? "..." : "",
                      "'");
}

}  // namespace everstep
