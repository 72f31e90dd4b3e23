// wire: which addresses may be spoken with.
#include "everstep/wire/credentials.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

// The four numbers of 127.a.b.c, so that a name such as 127.example.com is not taken for one.
bool IsLoopbackV4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

bool IsLoopback(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = address.substr(0, colon);
  return IsLoopbackV4(host) || host == "localhost" || host == "[::1]";
}

absl::Status CheckAddress(std::string_view address, const Credentials& credentials) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(ToAbsl(address.substr(colon + 1)), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", ToAbsl(address),
                                                   "' is not an address; write it as host:port, "
                                                   "e.g. 127.0.0.1:29700 or [::1]:29700"));
  }
  if (IsLoopback(address) || credentials.insecure) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("control at ", ToAbsl(address),
                   " is beyond loopback and not encrypted; use 127.0.0.1, or on "
                   "a network that you trust pass --insecure"));
}

}  // namespace everstep
