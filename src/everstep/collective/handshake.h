// collective: the messages by which two members open a link, and the dialer's side of it.
//
//   dialer    Hello      magic, nonce
//   listener  Challenge  magic, nonce
//   dialer    Claim      view, from whom, to whom; proof of the job secret over it
//   listener  Answer     welcome or refused; proof over claim and answer
//   both      Introduction: shape of the gradient memory; on unix links its descriptors too
//
// The listener answers a valid claim only when it connects to that view itself, or knows that the
// view is past. Descriptors go out only after the other side's proof was checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/base/view.h"
#include "everstep/env/fd.h"
#include "everstep/trust/secret.h"

namespace everstep {

constexpr size_t kHelloBytes = 8 + kNonceBytes;
constexpr size_t kClaimFields = 40;
constexpr size_t kClaimBytes = kClaimFields + kMacBytes;
constexpr size_t kAnswerFields = 20;
constexpr size_t kAnswerBytes = kAnswerFields + kMacBytes;
constexpr size_t kIntroductionBytes = 24;
constexpr int kIntroductionFds = 3;  // gradient memory, cells, eventfd

using HelloBytes = std::array<std::byte, kHelloBytes>;
using ClaimBytes = std::array<std::byte, kClaimBytes>;
using AnswerBytes = std::array<std::byte, kAnswerBytes>;
using IntroductionBytes = std::array<std::byte, kIntroductionBytes>;

struct Claim {
  ViewId view;
  int32_t from_rank = 0;
  int32_t to_rank = 0;
  Incarnation from = 0;
  Incarnation to = 0;
};

struct Nonces {
  Nonce dialer{};
  Nonce listener{};
};

HelloBytes EncodeHello(const Nonce& nonce);
bool DecodeHello(absl::Span<const std::byte> bytes, Nonce& nonce);

ClaimBytes EncodeClaim(const JobSecret& secret, const Nonces& nonces, const Claim& claim);
// False when the proof is wrong: a stranger.
bool DecodeClaim(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& bytes,
                 Claim& claim);

// `newest`: the newest view the listener connects or connected to.
AnswerBytes EncodeAnswer(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& claim,
                         bool welcome, const ViewId& newest);
enum class AnswerKind { kWelcome, kRefused, kStranger };
AnswerKind DecodeAnswer(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& claim,
                        const AnswerBytes& answer, ViewId& newest);

struct Introduction {
  uint64_t fingerprint = 0;   // of the arena's shape
  uint64_t memory_bytes = 0;  // of the arena
  bool shares = false;        // the sender could share memory on this link
};
IntroductionBytes EncodeIntroduction(const Introduction& introduction);
Introduction DecodeIntroduction(const IntroductionBytes& bytes);

// Hello to Answer on a fresh connection. A message has `step_limit`, but for the wait for the
// answer, which lasts until the listener connects to the view, at most until `deadline`. kAborted
// once `cancel_fd` is readable. kUnavailable: the other end is a stranger, or went;
// kFailedPrecondition: the view is past.
absl::Status IntroduceAsDialer(int socket, const JobSecret& secret, const Claim& claim,
                               Duration step_limit, Deadline deadline, int cancel_fd);

}  // namespace everstep
