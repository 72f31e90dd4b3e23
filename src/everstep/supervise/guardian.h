// supervise: the guardian, an outermost process that does nothing but outlive the agent.
//
// A process that is killed by SIGKILL cannot clean up after itself, so two look after each other:
//   guardian killed: the agent hears SIGTERM from the kernel, finds its parent gone, and leaves;
//   agent killed:    its processes hear SIGTERM from the kernel and become the guardian's children,
//                    who kills what is left after a moment.
#pragma once

#include <sys/types.h>

#include <functional>

#include "everstep/base/clock.h"
#include "everstep/env/process.h"

namespace everstep {

struct GuardedProcess {
  SignalQueue* signals;  // SIGTERM, SIGINT, SIGHUP and SIGCHLD
  pid_t guardian;        // its parent, as long as that lives
};

// Runs `body` in a copy of this process and returns in this one, when the copy has ended, the code
// that `body` returned, or 128 + the signal that killed the copy. SIGTERM, SIGINT and SIGHUP are
// passed on. Whatever is left of its processes is then killed, after `orphan_grace` if it did not
// end by itself. The copy is in a process group of its own, so that what hits this one's whole
// group (a terminal's Ctrl-C, SIGKILL from timeout(1)) reaches it through the guardian only.
//
// Call it while the process has a single thread, and once: signals stay blocked.
int RunGuarded(const std::function<int(const GuardedProcess&)>& body,
               Duration orphan_grace = std::chrono::milliseconds(1500));

}  // namespace everstep
