// apps: for the static command, those functions of the C library that would load shared libraries:
// they need the very C library that this program was linked with, which another host does not have.
// Linking fails if one is forgotten (its warning is an error).
//
// getaddrinfo goes through env/resolve.h. Our own look-ups do not come here; gRPC does when
// GRPC_DNS_RESOLVER=native is in the environment, as TensorFlow users like to have it. The others
// find nothing, or give numbers: names of services are used by none of us, and OpenSSL goes on
// without modules.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "everstep/env/clock.h"
#include "everstep/env/resolve.h"

namespace {

constexpr auto kLimit = std::chrono::seconds(30);  // as long as the C library tries by default

struct Node {
  addrinfo info{};
  everstep::SocketAddress address;
};

bool ParsePort(const char* service, int* port) {
  const std::string_view text = service;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *port);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && *port >= 0 &&
         *port <= 65535;
}

bool FamilyFits(const addrinfo& hints, int family) {
  return hints.ai_family == AF_UNSPEC || hints.ai_family == family;
}

bool Fill(const std::string& text, char* out, socklen_t size) {
  if (out == nullptr || size == 0) return true;
  if (text.size() >= size) return false;
  memcpy(out, text.c_str(), text.size() + 1);
  return true;
}

}  // namespace

extern "C" {

void freeaddrinfo(addrinfo* at) {
  while (at != nullptr) {
    addrinfo* const next = at->ai_next;
    delete reinterpret_cast<Node*>(at);  // `info` is its first member
    at = next;
  }
}

int getaddrinfo(const char* host, const char* service, const addrinfo* given, addrinfo** result) {
  const addrinfo hints = given != nullptr ? *given : addrinfo{};
  int port = 0;
  if (host == nullptr && service == nullptr) return EAI_NONAME;
  if (service != nullptr && !ParsePort(service, &port)) return EAI_SERVICE;
  std::vector<std::string> names;
  if (host != nullptr) {
    names = {host};
  } else if ((hints.ai_flags & AI_PASSIVE) != 0) {
    names = {"0.0.0.0", "::"};
  } else {
    names = {"::1", "127.0.0.1"};
  }
  *result = nullptr;
  addrinfo** end = result;
  for (const std::string& name : names) {
    auto found = everstep::Resolve(name, port, everstep::After(everstep::RealClock(), kLimit));
    if (!found.ok()) return absl::IsDeadlineExceeded(found.status()) ? EAI_AGAIN : EAI_NONAME;
    for (const everstep::SocketAddress& address : *found) {
      if (!FamilyFits(hints, address.family())) continue;
      auto* node = new Node{{}, address};
      node->info.ai_family = address.family();
      node->info.ai_socktype = hints.ai_socktype != 0 ? hints.ai_socktype : SOCK_STREAM;
      node->info.ai_protocol = hints.ai_protocol;
      node->info.ai_addrlen = address.length;
      node->info.ai_addr = reinterpret_cast<sockaddr*>(&node->address.storage);
      *end = &node->info;
      end = &node->info.ai_next;
    }
  }
  return *result != nullptr ? 0 : EAI_NONAME;
}

hostent* gethostbyname(const char* /*name*/) {
  h_errno = HOST_NOT_FOUND;
  return nullptr;
}

servent* getservbyname(const char* /*name*/, const char* /*protocol*/) { return nullptr; }

int getservbyport_r(int /*port*/, const char* /*protocol*/, servent* /*found*/, char* /*buffer*/,
                    size_t /*size*/, servent** result) {
  *result = nullptr;
  return ENOENT;
}

int getnameinfo(const sockaddr* address, socklen_t length, char* host, socklen_t host_size,
                char* service, socklen_t service_size, int /*flags*/) {
  everstep::SocketAddress copy;
  if (length > sizeof copy.storage) return EAI_FAMILY;
  memcpy(&copy.storage, address, length);
  copy.length = length;
  const std::string name = everstep::NumericHost(copy);
  if (name.empty()) return EAI_FAMILY;
  // The port has the same place in both families.
  const auto port = std::to_string(ntohs(reinterpret_cast<sockaddr_in&>(copy.storage).sin_port));
  return Fill(name, host, host_size) && Fill(port, service, service_size) ? 0 : EAI_OVERFLOW;
}

// The linker's --wrap, as the C library itself brings a dlopen for its own purposes.
void* __wrap_dlopen(const char* /*file*/, int /*mode*/) noexcept { return nullptr; }

}  // extern "C"
