// cluster: an address of a cluster.
#include "everstep/cluster/tf_config_address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr char kShape[] = "write \"host:port\"";

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsHostName(std::string_view host) {
  return !host.empty() &&
         std::all_of(host.begin(), host.end(),
                     [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
                     }) &&
         host.front() != '.' && host.front() != '-';
}

// As far as a launcher needs to know: groups of hexadecimal digits, perhaps with IPv4 and a zone.
bool IsIpv6(std::string_view host) {
  const std::string_view address = host.substr(0, host.find('%'));
  const auto colons = std::count(address.begin(), address.end(), ':');
  return (address.find("::") != std::string_view::npos || colons >= 6) && colons >= 2 &&
         address.find('.') > address.find(':') &&
         std::all_of(
             address.begin(), address.end(),
             [](unsigned char c) { return absl::ascii_isxdigit(c) || c == ':' || c == '.'; }) &&
         (address.size() == host.size() || IsHostName(host.substr(address.size() + 1)));
}

AddressProblem CheckHost(std::string_view text, std::string_view host, bool brackets) {
  if (host.empty()) return {"EV210", absl::StrCat(Shown(text), " has no host"), kShape};
  if (brackets && !IsIpv6(host)) {
    return {"EV210", absl::StrCat(Shown(text), " has no IPv6 address in its brackets"),
            "write \"host:port\" or \"[fd00::1]:2222\""};
  }
  if (!brackets && !IsHostName(host)) {
    return {"EV210", absl::StrCat(Shown(text), " has a host that cannot be one"),
            "write a host name, an IPv4 address, or an IPv6 address in brackets"};
  }
  return {};
}

AddressProblem CheckPort(std::string_view text, std::string_view port, int* number) {
  if (port.empty()) {
    return {"EV206", absl::StrCat(Shown(text), " has no port"), "write \"host:port\", e.g. :2222"};
  }
  if (!IsDigits(port) || port.size() > 9 || !absl::SimpleAtoi(ToAbsl(port), number) ||
      *number > 65535) {
    return {"EV207", absl::StrCat(Shown(text), " has a port that is no number from 1 to 65535"),
            kShape};
  }
  if (*number == 0) {
    return {"EV208", absl::StrCat(Shown(text), " has port 0, which the other tasks cannot know"),
            "choose a port"};
  }
  return {};
}

// What is wrong before host and port can be told apart.
AddressProblem CheckShape(std::string_view text) {
  const std::string shown = Shown(text);
  if (std::any_of(text.begin(), text.end(),
                  [](unsigned char c) { return c <= ' ' || c == 0x7f; })) {
    return {"EV202", absl::StrCat(shown, " has blanks"), "write \"host:port\" without blanks"};
  }
  if (text.empty()) return {"EV202", "an empty address", kShape};
  if (text.find("://") != std::string_view::npos) {
    return {"EV203", absl::StrCat(shown, " has a scheme; TensorFlow adds grpc:// itself"),
            "write \"host:port\" alone"};
  }
  if (text.find('@') != std::string_view::npos) {
    return {"EV204", absl::StrCat(shown, " has a user"), "write \"host:port\" alone"};
  }
  if (text.find('/') != std::string_view::npos) {
    return {"EV205", absl::StrCat(shown, " has a '/'"), "write \"host:port\" alone"};
  }
  return {};
}

// What somebody may have meant who left the brackets out.
std::string WithBrackets(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (!IsPlainAddress(text)) return "write \"[fd00::1]:2222\"";  // a zone may be anything
  const bool has_port = IsDigits(port) && IsIpv6(host) &&
                        (host.back() != ':' || host.substr(host.size() - 2) == "::");
  return has_port ? absl::StrCat("write \"[", ToAbsl(host), "]:", ToAbsl(port), "\"")
                  : absl::StrCat("write \"[", ToAbsl(text), "]:2222\"");
}

bool IsLoopbackHost(std::string_view lower) {
  return lower == "localhost" || lower == "::1" || lower == "0.0.0.0" || lower == "::" ||
         (lower.substr(0, 4) == "127." &&
          lower.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace

CheckedAddress CheckAddress(std::string_view text) {
  CheckedAddress result;
  result.problem = CheckShape(text);
  if (!result.problem.code.empty()) return result;
  std::string_view host = text, port;
  const bool brackets = text.front() == '[';
  if (brackets) {
    const size_t close = text.find(']');
    const bool shape =
        close != std::string_view::npos && (close + 1 == text.size() || text[close + 1] == ':');
    host = shape ? text.substr(1, close - 1) : std::string_view("[");
    if (shape && close + 1 < text.size()) port = text.substr(close + 2);
  } else if (std::count(text.begin(), text.end(), ':') >= 2) {
    result.problem = {"EV210", absl::StrCat(Shown(text), " has too many ':'"), kShape};
    if (IsIpv6(text)) {
      result.problem = {"EV209", absl::StrCat(Shown(text), " is IPv6 without brackets"),
                        WithBrackets(text)};
    }
    return result;
  } else {
    host = text.substr(0, text.find(':'));
    if (host.size() < text.size()) port = text.substr(host.size() + 1);
  }
  result.problem = CheckHost(text, host, brackets);
  int number = 0;
  if (result.problem.code.empty()) result.problem = CheckPort(text, port, &number);
  if (!result.problem.code.empty()) return result;
  result.host = std::string(host);
  std::string lower = absl::AsciiStrToLower(ToAbsl(host));
  if (lower.size() > 1 && lower.back() == '.') lower.pop_back();
  result.loopback = IsLoopbackHost(lower);
  const bool same = lower == "localhost" || lower == "::1";
  result.identity = absl::StrCat(same ? "127.0.0.1" : lower, "|", number);
  return result;
}

}  // namespace everstep
