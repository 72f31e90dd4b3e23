// env: the network interfaces of this host.
#pragma once

#include <string>
#include <vector>

namespace everstep {

// One address of an interface; an interface with several comes several times.
struct NetworkInterface {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.2", "fd00::2", "fe80::1%eth0"
  bool up = false;
  bool loopback = false;
};
// In the kernel's order, IPv4 and IPv6; those with an address, up or not. Empty when the kernel
// does not tell.
std::vector<NetworkInterface> ListInterfaces();

// The name of the interface ("eth0") that has the numeric address, or "localhost"; of a loopback
// address the loopback interface. Empty when none of this host has it, or it is another name.
std::string InterfaceOf(const std::string& address);

}  // namespace everstep
