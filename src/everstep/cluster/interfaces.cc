// cluster: which of this host's addresses others are to use.
#include "everstep/cluster/interfaces.h"

#include <array>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

constexpr size_t kLongestName = 15;  // of an interface in Linux

enum class Family { kAny, kIpv4, kIpv6 };

struct Setting {
  std::string name;
  std::string text;
};

// The first of the variables that says something.
std::optional<Setting> FirstOf(const EnvironmentReader& environment,
                               const std::array<const char*, 2>& names) {
  for (const char* name : names) {
    std::optional<std::string> text = ReadText(environment, name);
    if (text.has_value()) return Setting{name, *std::move(text)};
  }
  return std::nullopt;
}

absl::StatusOr<Family> ReadFamily(const EnvironmentReader& environment) {
  const std::optional<Setting> said =
      FirstOf(environment, {"EVERSTEP_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY"});
  if (!said.has_value()) return Family::kAny;
  if (said->text == "AF_INET") return Family::kIpv4;
  if (said->text == "AF_INET6") return Family::kIpv6;
  return Refuse("EV542", said->name, absl::StrCat(Quoted(said->text), " is no family"),
                absl::StrCat("set it to AF_INET or AF_INET6, or unset ", said->name));
}

bool IsIpv6(const NetworkInterface& one) { return absl::StrContains(one.address, ':'); }
bool IsOfLinkAlone(const NetworkInterface& one) { return absl::StrContains(one.address, '%'); }

// Less is better; equal ones stay in the kernel's order.
std::tuple<int, bool, bool> Rank(const NetworkInterface& one) {
  const int kind = one.loopback ? 2 : absl::StartsWith(one.name, "docker") ? 1 : 0;
  return {kind, absl::StartsWith(one.address, "169.254."), IsIpv6(one)};
}

std::string Describe(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> texts;
  for (const NetworkInterface& one : interfaces) {
    texts.push_back(absl::StrCat(one.name, " ", one.address,
                                 !one.up              ? " (down)"
                                 : IsOfLinkAlone(one) ? " (of its link alone)"
                                                      : ""));
  }
  return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
}

}  // namespace

absl::StatusOr<InterfacePattern> InterfacePattern::Parse(std::string_view text,
                                                         std::string_view where) {
  InterfacePattern pattern;
  absl::string_view rest = ToAbsl(text);
  pattern.excludes_ = absl::ConsumePrefix(&rest, "^");
  pattern.exact_ = absl::ConsumePrefix(&rest, "=");
  for (const absl::string_view name : absl::StrSplit(rest, ',', absl::SkipEmpty())) {
    if (name.find_first_of("^=") != absl::string_view::npos) {
      return Refuse(
          "EV540", where,
          absl::StrCat("'", name.substr(0, 1), "' inside ", Quoted(text),
                       ": '^' and '=' stand once, in this order, before the whole list"),
          "write e.g. eth,ib (begins with), =eth0,eth1 (exactly), ^docker,lo (all others)");
    }
    if (name.size() > kLongestName || name.find_first_of(" \t\n/:") != absl::string_view::npos) {
      return Refuse("EV540", where,
                    absl::StrCat(Quoted(ToStd(name)),
                                 " is not the name of an interface, nor how "
                                 "one begins"),
                    "list names as `ip link` shows them, with commas and no blanks");
    }
    pattern.names_.emplace_back(name);
  }
  if (pattern.names_.empty()) {
    return Refuse("EV540", where, absl::StrCat(Quoted(text), " names no interface"),
                  "write e.g. eth0, or unset it");
  }
  return pattern;
}

bool InterfacePattern::Matches(std::string_view name) const {
  bool named = false;
  for (const std::string& one : names_) {
    named = named || (exact_ ? name == one : name.substr(0, one.size()) == one);
  }
  return named != excludes_;
}

absl::StatusOr<std::optional<ChosenAddress>> ChooseAddress(
    const EnvironmentReader& environment, const std::vector<NetworkInterface>& interfaces) {
  EV_ASSIGN_OR_RETURN(const Family family, ReadFamily(environment));
  const std::optional<Setting> said =
      FirstOf(environment, {"EVERSTEP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"});
  if (!said.has_value()) return std::optional<ChosenAddress>();
  EV_ASSIGN_OR_RETURN(const InterfacePattern pattern,
                      InterfacePattern::Parse(said->text, said->name));
  const NetworkInterface* best = nullptr;
  for (const NetworkInterface& one : interfaces) {
    if (!one.up || IsOfLinkAlone(one) || !pattern.Matches(one.name)) continue;
    if (family != Family::kAny && (family == Family::kIpv6) != IsIpv6(one)) continue;
    if (best == nullptr || Rank(one) < Rank(*best)) best = &one;
  }
  if (best != nullptr) return std::optional<ChosenAddress>({best->name, best->address});
  const char* kind = family == Family::kIpv4   ? "IPv4 address"
                     : family == Family::kIpv6 ? "IPv6 address"
                                               : "address";
  return Refuse(
      "EV541", said->name,
      absl::StrCat("no interface that is up with an ", kind, " other hosts can use matches ",
                   Quoted(said->text), "; there is: ", Describe(interfaces)),
      absl::StrCat("name one of these, or unset ", said->name));
}

}  // namespace everstep
