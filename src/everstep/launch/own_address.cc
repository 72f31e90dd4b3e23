// launch: the own address.
#include "everstep/launch/own_address.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/resolve.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

bool IsLoopbackNumber(const std::string& number) {
  return absl::StartsWith(number, "127.") || number == "::1";
}

// "10.0.0.2 (eth0), fd00::2 (eth0)": what others may reach.
std::string Describe(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> all;
  for (const NetworkInterface& one : interfaces) {
    if (one.up && !one.loopback && !absl::StartsWith(one.address, "fe80:")) {
      all.push_back(absl::StrCat(one.address, " (", one.name, ")"));
    }
  }
  return all.empty() ? "no address but its loopback" : absl::StrJoin(all, ", ");
}

std::string NameToTry(const std::vector<NetworkInterface>& interfaces) {
  for (const NetworkInterface& one : interfaces) {
    if (one.up && !one.loopback) return one.name;
  }
  return "lo";
}

// "worker:1 is at a:2222 (10.0.0.9)"
std::string Said(const OwnHost& own, const std::string& host) {
  const std::string numbers = absl::StrJoin(own.numbers, ", ");
  return absl::StrCat(own.source, " says that ", own.task.ToString(), " is at ", own.address,
                      numbers == host ? "" : absl::StrCat(" (", numbers, ")"));
}

}  // namespace

absl::StatusOr<std::string> ListenAddress(const OwnHost& own,
                                          const std::vector<NetworkInterface>& interfaces) {
  EV_ASSIGN_OR_RETURN(const HostPort address, HostPort::Parse(own.address));
  bool loopback = false;
  for (const std::string& number : own.numbers) {
    const bool here = std::any_of(interfaces.begin(), interfaces.end(),
                                  [&number](const auto& one) { return one.address == number; });
    const bool any = number == "0.0.0.0" || number == "::";
    // Who writes a loopback address means it; a name may be one by accident, of /etc/hosts.
    const bool meant = address.host == number || address.host == "localhost" || own.shared;
    if (IsLoopbackNumber(number) && !meant) {
      loopback = true;
    } else if (here || any || IsLoopbackNumber(number)) {
      return number;
    }
  }
  const std::string name = NameToTry(interfaces);
  if (loopback) {
    return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                            Said(own, address.host),
                            ", which on this host is its loopback (see /etc/hosts), where ",
                            "other hosts do not reach it; set EVERSTEP_SOCKET_IFNAME=", name,
                            ", or write the host's address")),
                        kExitConfiguration);
  }
  return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                          Said(own, address.host), ", but this host has ", Describe(interfaces),
                          ": is the index right? EVERSTEP_SOCKET_IFNAME=", name,
                          " if it is reached by that address all the same")),
                      kExitConfiguration);
}

absl::StatusOr<std::vector<std::string>> LookUp(const std::string& host, Deadline deadline,
                                                int cancel_fd) {
  while (true) {
    const auto found = Resolve(host, 0, deadline, cancel_fd);
    if (found.ok()) {
      std::vector<std::string> numbers;
      for (const SocketAddress& address : *found) numbers.push_back(NumericHost(address));
      return numbers;
    }
    const Duration left = deadline - RealClock().Now();
    if (absl::IsAborted(found.status())) return found.status();
    if (left <= Duration::zero()) return WithExitCode(found.status(), kExitNotNow);
    PollItem item{cancel_fd, true};
    (void)Poll(absl::MakeSpan(&item, 1), std::min<Duration>(left, std::chrono::seconds(1)));
    if (item.readable) return absl::AbortedError("told to leave");
  }
}

}  // namespace everstep
