// wire: the mutual proof of a control stream (trust/secret.h), without the transport. Internal to
// the room.
//
// The server speaks first: Challenge with its nonce; the client: Answer with its nonce and proof;
// the server: Proof. The kind of stream is part of what is proved.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "everstep/trust/secret.h"
#include "everstep/wire/control.pb.h"

namespace everstep {

enum class StreamKind { kWorker, kAgent };

// For whoever is refused: what is wrong when the ends of a stream of that kind hold no secret in
// common.
std::string NoCommonSecret(StreamKind kind);

class ServerHandshake {
 public:
  // `join`: a second secret that will do as well, for agents only; null: none. Both outlive this.
  ServerHandshake(const JobSecret& secret, StreamKind kind, const JobSecret* join = nullptr);
  wire::Challenge challenge() const;
  // kPermissionDenied when `answer` shows neither; else fills `proof`, by the one it shows.
  absl::Status Check(const wire::Answer& answer, wire::Proof* proof) const;

 private:
  const JobSecret& secret_;
  const JobSecret* const join_;
  const StreamKind kind_;
  const Nonce mine_;
};

class ClientHandshake {
 public:
  ClientHandshake(const JobSecret& secret, StreamKind kind);
  // kPermissionDenied when the challenge is not one.
  absl::Status Answer(const wire::Challenge& challenge, wire::Answer* answer);
  // kPermissionDenied when `proof` does not show the secret, or comes before the challenge.
  absl::Status Check(const wire::Proof& proof) const;

 private:
  const JobSecret& secret_;
  const StreamKind kind_;
  const Nonce mine_;
  Nonce theirs_{};
  bool challenged_ = false;
};

}  // namespace everstep
