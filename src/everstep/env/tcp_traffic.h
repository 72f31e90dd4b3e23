// env: how many bytes each TCP connection of this network namespace has moved so far.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace everstep {

// By the inode of the socket: bytes that the other end has acknowledged, and bytes received. What
// the kernel does not tell is not in it. Any thread.
std::unordered_map<uint64_t, int64_t> TcpTraffic();

}  // namespace everstep
