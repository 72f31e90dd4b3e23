// wire: the mutual proof of a control stream.
#include "everstep/wire/handshake.h"

#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

std::string_view PurposeOf(StreamKind kind) {
  return kind == StreamKind::kWorker ? "everstep control v1: worker" : "everstep control v1: agent";
}

std::string Bytes(const uint8_t* data, size_t size) {
  return std::string(reinterpret_cast<const char*>(data), size);
}

bool ReadNonce(const std::string& bytes, Nonce* nonce) {
  if (bytes.size() != nonce->size()) return false;
  std::memcpy(nonce->data(), bytes.data(), nonce->size());
  return true;
}

bool Proves(const std::string& proof, const MacTag& expected) {
  return EqualInConstantTime(proof, Bytes(expected.data(), expected.size()));
}

}  // namespace

// Who joins by hand cannot tell these from each other.
std::string NoCommonSecret(StreamKind kind) {
  if (kind == StreamKind::kWorker) return "this process does not hold the job's secret";
  return "either it is another job's coordinator, or this process holds another join secret than "
         "it does; see the address, and EVERSTEP_JOIN_SECRET_FILE (else ~/.everstep/join-secret) "
         "on both hosts";
}

ServerHandshake::ServerHandshake(const JobSecret& secret, StreamKind kind, const JobSecret* join)
    : secret_(secret),
      join_(kind == StreamKind::kAgent ? join : nullptr),
      kind_(kind),
      mine_(MakeNonce()) {}

wire::Challenge ServerHandshake::challenge() const {
  wire::Challenge challenge;
  challenge.set_nonce(Bytes(mine_.data(), mine_.size()));
  return challenge;
}

absl::Status ServerHandshake::Check(const wire::Answer& answer, wire::Proof* proof) const {
  Nonce theirs;
  if (!ReadNonce(answer.nonce(), &theirs)) {
    return absl::PermissionDeniedError("what it sent is not an answer to the challenge");
  }
  const auto purpose = PurposeOf(kind_);
  for (const JobSecret* secret : {&secret_, join_}) {
    if (secret == nullptr ||
        !Proves(answer.proof(), Prove(*secret, purpose, Side::kDialer, theirs, mine_))) {
      continue;
    }
    const MacTag tag = Prove(*secret, purpose, Side::kListener, theirs, mine_);
    proof->set_proof(Bytes(tag.data(), tag.size()));
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(join_ == nullptr
                                         ? "it does not hold the secret of this job"
                                         : "it holds neither the secret of this job nor the join "
                                           "secret of the user who runs it");
}

ClientHandshake::ClientHandshake(const JobSecret& secret, StreamKind kind)
    : secret_(secret), kind_(kind), mine_(MakeNonce()) {}

absl::Status ClientHandshake::Answer(const wire::Challenge& challenge, wire::Answer* answer) {
  if (challenged_ || !ReadNonce(challenge.nonce(), &theirs_)) {
    return absl::PermissionDeniedError("the other end does not speak as a coordinator");
  }
  challenged_ = true;
  const MacTag tag = Prove(secret_, PurposeOf(kind_), Side::kDialer, mine_, theirs_);
  answer->set_nonce(Bytes(mine_.data(), mine_.size()));
  answer->set_proof(Bytes(tag.data(), tag.size()));
  return absl::OkStatus();
}

absl::Status ClientHandshake::Check(const wire::Proof& proof) const {
  if (!challenged_ ||
      !Proves(proof.proof(), Prove(secret_, PurposeOf(kind_), Side::kListener, mine_, theirs_))) {
    return absl::PermissionDeniedError(
        absl::StrCat("what answers there does not prove itself: ", NoCommonSecret(kind_)));
  }
  return absl::OkStatus();
}

}  // namespace everstep
