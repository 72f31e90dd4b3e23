// wire: the mutual proof of a control stream.
#include "everstep/wire/handshake.h"

#include <cstring>
#include <string>
#include <string_view>

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

ServerHandshake::ServerHandshake(const JobSecret& secret, StreamKind kind)
    : secret_(secret), kind_(kind), mine_(MakeNonce()) {}

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
  if (!Proves(answer.proof(), Prove(secret_, purpose, Side::kDialer, theirs, mine_))) {
    return absl::PermissionDeniedError("it does not hold the secret of this job");
  }
  const MacTag tag = Prove(secret_, purpose, Side::kListener, theirs, mine_);
  proof->set_proof(Bytes(tag.data(), tag.size()));
  return absl::OkStatus();
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
    return absl::PermissionDeniedError("the other end does not hold the secret of this job");
  }
  return absl::OkStatus();
}

}  // namespace everstep
