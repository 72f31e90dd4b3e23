// cluster: what the resolvers share.
#include "everstep/cluster/resolver_parts.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cluster/finding.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {

absl::Status Refuse(std::string_view code, std::string_view where, std::string_view what,
                    std::string_view cure) {
  Finding finding;
  finding.code = std::string(code);
  finding.error = true;
  finding.where = std::string(where);
  finding.what = std::string(what);
  finding.cure = std::string(cure);
  return WithExitCode(absl::InvalidArgumentError(finding.ToString()), kExitConfiguration);
}

std::optional<std::string> ReadText(const EnvironmentReader& environment, const std::string& name) {
  const std::optional<std::string> value = environment(name);
  if (!value.has_value()) return std::nullopt;
  const absl::string_view text = absl::StripAsciiWhitespace(*value);
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

absl::StatusOr<std::optional<int>> ReadWhole(const EnvironmentReader& environment,
                                             const std::string& name, int least, int most) {
  const std::optional<std::string> text = ReadText(environment, name);
  if (!text.has_value()) return std::optional<int>();
  int number = 0;
  if (text->find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(*text, &number) || number < least || number > most) {
    return Refuse("EV504", name,
                  absl::StrCat(Quoted(*text), " is not a number from ", least, " to ", most),
                  absl::StrCat("write one, or unset ", name));
  }
  return std::optional<int>(number);
}

std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 80;
  if (HoldsCredentials(text)) return Shown(text);
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) result += absl::ascii_isprint(c) ? c : '?';
  return result + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace everstep
