// env: the network interfaces of this host.
#pragma once

#include <string>

namespace everstep {

// The name of the interface ("eth0") that has the numeric address, or "localhost"; of a loopback
// address the loopback interface. Empty when none of this host has it, or it is another name.
std::string InterfaceOf(const std::string& address);

}  // namespace everstep
