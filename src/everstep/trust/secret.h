// trust: the job secret, which keeps strangers out of a job's sockets, and the mutual proof by
// which two processes show each other that they hold it without sending it.
//
// The proof, used alike by the data plane and the control plane:
//   1. the dialer sends a fresh nonce N_d; the listener sends a fresh nonce N_l;
//   2. the dialer sends Prove(secret, purpose, kDialer, N_d, N_l, claims of the dialer);
//   3. the listener checks it, then sends Prove(secret, purpose, kListener, N_d, N_l, its claims);
//   4. the dialer checks that.
// The side and the purpose are part of what is proved, so a proof can be neither reflected to the
// one who made it nor replayed at another kind of door.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace everstep {

constexpr size_t kSecretBytes = 32;
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;  // HMAC-SHA256

using Nonce = std::array<uint8_t, kNonceBytes>;
using MacTag = std::array<uint8_t, kMacBytes>;

// 32 random bytes known to the processes of one job only. There is no way to print it: no stream
// operator, no conversion to a string but ToHexForFile(), whose name says where the text may go.
// Its memory is wiped when it ends. Copies are independent; any thread.
class JobSecret {
 public:
  static JobSecret Generate();  // from the kernel's randomness
  // From the text of a secret file: 64 hex digits, then at most white space. kInvalidArgument for
  // anything else; the message never contains the text.
  static absl::StatusOr<JobSecret> FromHex(std::string_view text);

  JobSecret(const JobSecret&) = default;
  JobSecret& operator=(const JobSecret&) = default;
  ~JobSecret();

  // 64 hex digits and a newline. Only for a file of mode 0600, or the environment of a child that
  // needs it.
  std::string ToHexForFile() const;

  // In constant time.
  friend bool operator==(const JobSecret& a, const JobSecret& b);
  friend bool operator!=(const JobSecret& a, const JobSecret& b) { return !(a == b); }

 private:
  friend MacTag Mac(const JobSecret& secret, std::string_view message);
  JobSecret() = default;

  std::array<uint8_t, kSecretBytes> bytes_{};
};

Nonce MakeNonce();  // from the kernel's randomness; never the same twice

// HMAC-SHA256 of `message`.
MacTag Mac(const JobSecret& secret, std::string_view message);

enum class Side : uint8_t { kDialer = 1, kListener = 2 };

// What `side` sends to show that it holds the secret. `purpose` names the kind of door, e.g.
// "everstep control v1"; `claims` are what the side says of itself in the clear and wants bound to
// the proof (its rank, its view), or empty.
MacTag Prove(const JobSecret& secret, std::string_view purpose, Side side, const Nonce& dialer,
             const Nonce& listener, std::string_view claims = {});

// Whether two byte strings are equal, in a time that depends on their lengths only.
bool EqualInConstantTime(std::string_view a, std::string_view b);
bool EqualInConstantTime(const MacTag& a, const MacTag& b);

// A name that strangers cannot guess and that does not give the secret away: the first 16 bytes of
// Mac(secret, purpose) in hex.
std::string PublicNameOf(const JobSecret& secret, std::string_view purpose);

}  // namespace everstep
