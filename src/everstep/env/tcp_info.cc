// env: what the kernel knows of a TCP connection. Apart from socket.cc because the C library's
// tcp_info is older than the kernel's and the two headers exclude each other.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>

#include "everstep/env/socket.h"

namespace everstep {

InFlight InFlightOf(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  // Bytes held back although the reader has room: this host's own interface or route is down.
  const bool held_back = info.tcpi_notsent_bytes > 0 && info.tcpi_snd_wnd >= info.tcpi_snd_mss;
  return {info.tcpi_unacked > 0 || held_back, std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace everstep
