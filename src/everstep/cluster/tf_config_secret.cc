// cluster: what must not be printed.
#include "everstep/cluster/tf_config_secret.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

constexpr size_t kLongRun =
    32;  // letters and digits of a key; names of hosts have dots and hyphens
constexpr size_t kMaxQuoted = 60;
constexpr std::string_view kAssigned[] = {"token",     "password", "passwd",    "pwd",
                                          "secret",    "api_key",  "apikey",    "access_key",
                                          "accesskey", "api-key",  "credential"};
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
  for (const std::string_view word : kAssigned) {
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

}  // namespace

bool HoldsCredentials(std::string_view text) {
  return HasPasswordBeforeHost(text) || HasAssignment(absl::AsciiStrToLower(ToAbsl(text))) ||
         HasKeyForm(text);
}

bool LooksLikeSecret(std::string_view text) { return HoldsCredentials(text) || HasLongRun(text); }

bool IsNameOfSecret(std::string_view key) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(key));
  return std::any_of(std::begin(kAssigned), std::end(kAssigned),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

std::string Shown(std::string_view text) {
  if (LooksLikeSecret(text)) return "(not shown: it looks like a secret)";
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("'", absl::CHexEscape(ToAbsl(text.substr(0, kMaxQuoted))), cut ? "..." : "",
                      "'");
}

}  // namespace everstep
