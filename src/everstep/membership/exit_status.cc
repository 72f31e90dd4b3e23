// membership: what the status of a process that has ended means.
#include "everstep/membership/exit_status.h"

#include <string.h>

#include "absl/strings/str_cat.h"

namespace everstep {

ExitMeaning MeaningOf(int wait_status, bool oom) {
  // The layout of wait statuses is Linux's: the machine that decodes may not be the one that
  // waited.
  const int signal = wait_status & 0x7f;
  if (signal == 0) {
    const int code = (wait_status >> 8) & 0xff;
    return {code, 0, absl::StrCat("exited with code ", code)};
  }
  if (oom) return {128 + signal, signal, "was killed by the kernel for lack of memory (OOM)"};
  const char* name = sigabbrev_np(signal);
  std::string text = absl::StrCat("was killed by signal ", signal);
  if (name != nullptr) absl::StrAppend(&text, " (SIG", name, ")");
  if ((wait_status & 0x80) != 0) absl::StrAppend(&text, ", core dumped");
  return {128 + signal, signal, text};
}

}  // namespace everstep
