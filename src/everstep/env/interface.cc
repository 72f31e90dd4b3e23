// env: interfaces, Linux form.
#include "everstep/env/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include <memory>

namespace everstep {
namespace {

// An IPv4 or IPv6 address in its bytes; family AF_UNSPEC: it is neither.
struct Numeric {
  int family = AF_UNSPEC;
  in6_addr bytes{};  // the first four of an IPv4 one

  bool IsLoopback() const {
    return family == AF_INET ? bytes.s6_addr[0] == 127 : IN6_IS_ADDR_LOOPBACK(&bytes) != 0;
  }
  bool IsAddressOf(const ifaddrs& entry) const {
    if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != family) return false;
    const void* address = family == AF_INET
                              ? static_cast<const void*>(
                                    &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr)
                              : &reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    return memcmp(address, &bytes, family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr)) == 0;
  }
};

Numeric Parse(const std::string& text) {
  Numeric address;
  for (int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), &address.bytes) == 1) {
      address.family = family;
      return address;
    }
  }
  return address;
}

std::string AddressText(const ifaddrs& entry) {
  char text[INET6_ADDRSTRLEN] = "";
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    return inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text) == nullptr ? "" : text;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  if (inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text) == nullptr) return "";
  // Each link has an fe80::/10 of its own: without the link such an address says nothing.
  const bool of_link = IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) != 0;
  return of_link ? std::string(text) + "%" + entry.ifa_name : text;
}

}  // namespace

std::vector<NetworkInterface> ListInterfaces() {
  std::vector<NetworkInterface> result;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return result;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    NetworkInterface& one = result.emplace_back();
    one.name = entry->ifa_name;
    one.address = AddressText(*entry);
    one.up = (entry->ifa_flags & IFF_UP) != 0;
    one.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
  }
  return result;
}

std::string InterfaceOf(const std::string& text) {
  const Numeric address = Parse(text == "localhost" ? "127.0.0.1" : text);
  ifaddrs* list = nullptr;
  if (address.family == AF_UNSPEC || getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    // All of 127.0.0.0/8 is the loopback's, though it lists one address of them.
    const bool loopback = address.IsLoopback() && (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (loopback || address.IsAddressOf(*entry)) return entry->ifa_name;
  }
  return "";
}

}  // namespace everstep
