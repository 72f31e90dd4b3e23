// env: TCP traffic, asked of the kernel by netlink's socket diagnosis.
#include "everstep/env/tcp_traffic.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstddef>
#include <vector>

#include "everstep/env/fd.h"

namespace everstep {
namespace {

// Not the listening ones, nor those whose process is done with them.
constexpr uint32_t kConnectedStates = (1u << 1) | (1u << 4) | (1u << 5) | (1u << 8) | (1u << 9);

void ReadSocket(const nlmsghdr* header, std::unordered_map<uint64_t, int64_t>* traffic) {
  const auto* message = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  if (header->nlmsg_len < NLMSG_LENGTH(sizeof *message)) return;
  int left = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof *message));
  for (auto* at = reinterpret_cast<const rtattr*>(message + 1); RTA_OK(at, left);
       at = RTA_NEXT(at, left)) {
    if (at->rta_type != INET_DIAG_INFO) continue;
    // Kernels tell as much of it as they know.
    if (RTA_PAYLOAD(at) < offsetof(tcp_info, tcpi_bytes_received) + sizeof(uint64_t)) continue;
    tcp_info info{};
    memcpy(&info, RTA_DATA(at), std::min<size_t>(RTA_PAYLOAD(at), sizeof info));
    (*traffic)[message->idiag_inode] +=
        static_cast<int64_t>(info.tcpi_bytes_acked + info.tcpi_bytes_received);
  }
}

void ReadFamily(int socket, uint8_t family, std::unordered_map<uint64_t, int64_t>* traffic) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.request.sdiag_family = family;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  question.request.idiag_states = kConnectedStates;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (sendto(socket, &question, sizeof question, 0, reinterpret_cast<const sockaddr*>(&kernel),
             sizeof kernel) < 0) {
    return;
  }
  alignas(nlmsghdr) char buffer[32768];
  while (true) {
    const ssize_t n = recv(socket, buffer, sizeof buffer, 0);
    if (n <= 0) return;
    int left = static_cast<int>(n);
    for (auto* at = reinterpret_cast<const nlmsghdr*>(buffer); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) return;
      if (at->nlmsg_type == SOCK_DIAG_BY_FAMILY) ReadSocket(at, traffic);
    }
  }
}

}  // namespace

std::unordered_map<uint64_t, int64_t> TcpTraffic() {
  std::unordered_map<uint64_t, int64_t> traffic;
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket.valid()) return traffic;
  // The kernel answers from memory; this is for one that does not.
  const timeval patience = {0, 200'000};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ReadFamily(socket.get(), AF_INET, &traffic);
  ReadFamily(socket.get(), AF_INET6, &traffic);
  return traffic;
}

}  // namespace everstep
