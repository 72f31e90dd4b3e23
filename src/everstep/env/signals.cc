// env: signals, POSIX form.
#include "everstep/env/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace everstep {
namespace {

constexpr int64_t kSecondSignalNs = 2'000'000'000;
constexpr int kLeaveCode = 143;

std::atomic<std::atomic<bool>*> g_flag{nullptr};
std::atomic<int64_t> g_first_ns{0};
static_assert(std::atomic<int64_t>::is_always_lock_free, "used in a signal handler");

// Only async-signal-safe calls in here.
void Handle(int) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int64_t none = 0;
  if (!g_first_ns.compare_exchange_strong(none, now_ns) && now_ns - none >= kSecondSignalNs) {
    _exit(kLeaveCode);
  }
  if (std::atomic<bool>* flag = g_flag.load()) flag->store(true);
}

}  // namespace

void LeaveOnSignal(std::atomic<bool>* flag) {
  g_flag.store(flag);
  g_first_ns.store(0);
  struct sigaction action {};
  action.sa_handler = flag != nullptr ? Handle : SIG_DFL;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace everstep
