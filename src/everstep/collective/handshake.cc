// collective: opening a link.
#include "everstep/collective/handshake.h"

#include <algorithm>
#include <cstring>

#include "everstep/base/status.h"
#include "everstep/collective/frame.h"
#include "everstep/env/clock.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr char kMagic[] = "EVRLINK1";
constexpr std::string_view kPurpose = "everstep data link v1";

std::string_view TextOf(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void PutTag(const MacTag& tag, std::byte* at) { std::memcpy(at, tag.data(), tag.size()); }

bool TagIs(const MacTag& tag, const std::byte* at) {
  MacTag got;
  std::memcpy(got.data(), at, got.size());
  return EqualInConstantTime(tag, got);
}

MacTag AnswerTag(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& claim,
                 absl::Span<const std::byte> answer_fields) {
  std::string claims(TextOf(claim));
  claims.append(TextOf(answer_fields));
  return Prove(secret, kPurpose, Side::kListener, nonces.dialer, nonces.listener, claims);
}

}  // namespace

HelloBytes EncodeHello(const Nonce& nonce) {
  HelloBytes bytes;
  std::memcpy(bytes.data(), kMagic, 8);
  std::memcpy(bytes.data() + 8, nonce.data(), nonce.size());
  return bytes;
}

bool DecodeHello(absl::Span<const std::byte> bytes, Nonce& nonce) {
  if (bytes.size() != kHelloBytes || std::memcmp(bytes.data(), kMagic, 8) != 0) return false;
  std::memcpy(nonce.data(), bytes.data() + 8, nonce.size());
  return true;
}

ClaimBytes EncodeClaim(const JobSecret& secret, const Nonces& nonces, const Claim& claim) {
  ClaimBytes bytes;
  ByteWriter(bytes.data())
      .Put(claim.view.term)
      .Put(claim.view.id)
      .Put(claim.from_rank)
      .Put(claim.to_rank)
      .Put(claim.from)
      .Put(claim.to);
  PutTag(Prove(secret, kPurpose, Side::kDialer, nonces.dialer, nonces.listener,
               TextOf(absl::MakeConstSpan(bytes).first(kClaimFields))),
         bytes.data() + kClaimFields);
  return bytes;
}

bool DecodeClaim(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& bytes,
                 Claim& claim) {
  const MacTag tag = Prove(secret, kPurpose, Side::kDialer, nonces.dialer, nonces.listener,
                           TextOf(absl::MakeConstSpan(bytes).first(kClaimFields)));
  if (!TagIs(tag, bytes.data() + kClaimFields)) return false;
  ByteReader reader(bytes.data());
  claim.view.term = reader.Get<int64_t>();
  claim.view.id = reader.Get<int64_t>();
  claim.from_rank = reader.Get<int32_t>();
  claim.to_rank = reader.Get<int32_t>();
  claim.from = reader.Get<uint64_t>();
  claim.to = reader.Get<uint64_t>();
  return true;
}

AnswerBytes EncodeAnswer(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& claim,
                         bool welcome, const ViewId& newest) {
  AnswerBytes bytes;
  ByteWriter(bytes.data()).Put(uint32_t{welcome ? 1u : 2u}).Put(newest.term).Put(newest.id);
  PutTag(AnswerTag(secret, nonces, claim, absl::MakeConstSpan(bytes).first(kAnswerFields)),
         bytes.data() + kAnswerFields);
  return bytes;
}

AnswerKind DecodeAnswer(const JobSecret& secret, const Nonces& nonces, const ClaimBytes& claim,
                        const AnswerBytes& answer, ViewId& newest) {
  const MacTag tag =
      AnswerTag(secret, nonces, claim, absl::MakeConstSpan(answer).first(kAnswerFields));
  if (!TagIs(tag, answer.data() + kAnswerFields)) return AnswerKind::kStranger;
  ByteReader reader(answer.data());
  const uint32_t kind = reader.Get<uint32_t>();
  newest.term = reader.Get<int64_t>();
  newest.id = reader.Get<int64_t>();
  return kind == 1 ? AnswerKind::kWelcome : AnswerKind::kRefused;
}

IntroductionBytes EncodeIntroduction(const Introduction& introduction) {
  IntroductionBytes bytes{};
  ByteWriter(bytes.data())
      .Put(introduction.fingerprint)
      .Put(introduction.memory_bytes)
      .Put(uint64_t{introduction.shares ? 1u : 0u});
  return bytes;
}

Introduction DecodeIntroduction(const IntroductionBytes& bytes) {
  ByteReader reader(bytes.data());
  Introduction introduction;
  introduction.fingerprint = reader.Get<uint64_t>();
  introduction.memory_bytes = reader.Get<uint64_t>();
  introduction.shares = reader.Get<uint64_t>() == 1;
  return introduction;
}

absl::Status IntroduceAsDialer(int socket, const JobSecret& secret, const Claim& claim,
                               Duration step_limit, Deadline deadline, int cancel_fd) {
  const auto soon = [&] { return std::min(deadline, After(RealClock(), step_limit)); };
  Nonces nonces;
  nonces.dialer = MakeNonce();
  EV_RETURN_IF_ERROR(SendAll(socket, EncodeHello(nonces.dialer), soon(), cancel_fd));
  HelloBytes challenge;
  EV_RETURN_IF_ERROR(ReceiveAll(socket, absl::MakeSpan(challenge), soon(), cancel_fd));
  if (!DecodeHello(challenge, nonces.listener)) {
    return absl::UnavailableError("something else listens there");
  }
  const ClaimBytes claim_bytes = EncodeClaim(secret, nonces, claim);
  EV_RETURN_IF_ERROR(SendAll(socket, claim_bytes, soon(), cancel_fd));
  EV_RETURN_IF_ERROR(AwaitReadable(socket, deadline, cancel_fd));
  AnswerBytes answer;
  EV_RETURN_IF_ERROR(ReceiveAll(socket, absl::MakeSpan(answer), soon(), cancel_fd));
  ViewId newest;
  switch (DecodeAnswer(secret, nonces, claim_bytes, answer, newest)) {
    case AnswerKind::kWelcome:
      return absl::OkStatus();
    case AnswerKind::kRefused:
      return absl::FailedPreconditionError(absl::StrCat("refused the link: it knows view ",
                                                        newest.ToString(), " and not ",
                                                        claim.view.ToString(), " any more"));
    case AnswerKind::kStranger:
      break;
  }
  return absl::UnavailableError("one without the job's secret listens there");
}

}  // namespace everstep
