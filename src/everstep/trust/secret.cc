// trust: the job secret and proofs, by OpenSSL's HMAC.
#include "everstep/trust/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>
#include <cstring>

#include "everstep/env/environment.h"

namespace everstep {
namespace {

template <size_t N>
void FillRandom(std::array<uint8_t, N>& bytes) {
  static_assert(N % sizeof(uint64_t) == 0);
  for (size_t i = 0; i < N; i += sizeof(uint64_t)) {
    const uint64_t bits = RandomBits64();
    std::memcpy(bytes.data() + i, &bits, sizeof bits);
  }
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string ToHex(const uint8_t* bytes, size_t n) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * n);
  for (size_t i = 0; i < n; ++i) {
    text.push_back(kDigits[bytes[i] >> 4]);
    text.push_back(kDigits[bytes[i] & 15]);
  }
  return text;
}

// Length-prefixed, so that no two lists of fields give the same message.
void AppendField(std::string& message, std::string_view field) {
  for (int shift = 0; shift < 64; shift += 8) {
    message.push_back(static_cast<char>(static_cast<uint64_t>(field.size()) >> shift));
  }
  message.append(field);
}

std::string_view AsText(const uint8_t* bytes, size_t n) {
  return {reinterpret_cast<const char*>(bytes), n};
}

}  // namespace

JobSecret JobSecret::Generate() {
  JobSecret secret;
  FillRandom(secret.bytes_);
  return secret;
}

absl::StatusOr<JobSecret> JobSecret::FromHex(std::string_view text) {
  while (!text.empty() && std::strchr(" \t\r\n", text.back()) != nullptr) text.remove_suffix(1);
  const absl::Status bad = absl::InvalidArgumentError(
      "the job secret is not 64 hex digits: the file is damaged or is another file; delete it to "
      "have a new one made, or copy it again from the host that made the job");
  if (text.size() != 2 * kSecretBytes) return bad;
  JobSecret secret;
  for (size_t i = 0; i < kSecretBytes; ++i) {
    const int high = HexDigit(text[2 * i]);
    const int low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return bad;
    secret.bytes_[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return secret;
}

JobSecret::~JobSecret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

std::string JobSecret::ToHexForFile() const { return ToHex(bytes_.data(), bytes_.size()) + "\n"; }

bool operator==(const JobSecret& a, const JobSecret& b) {
  return CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), kSecretBytes) == 0;
}

Nonce MakeNonce() {
  Nonce nonce;
  FillRandom(nonce);
  return nonce;
}

MacTag Mac(const JobSecret& secret, std::string_view message) {
  MacTag tag{};
  unsigned length = 0;
  const unsigned char* done = HMAC(
      EVP_sha256(), secret.bytes_.data(), static_cast<int>(secret.bytes_.size()),
      reinterpret_cast<const unsigned char*>(message.data()), message.size(), tag.data(), &length);
  // Without a MAC no door can be kept; this happens only when OpenSSL was built without SHA-256.
  if (done == nullptr || length != tag.size()) std::abort();
  return tag;
}

MacTag Prove(const JobSecret& secret, std::string_view purpose, Side side, const Nonce& dialer,
             const Nonce& listener, std::string_view claims) {
  std::string message;
  AppendField(message, purpose);
  message.push_back(static_cast<char>(side));
  AppendField(message, AsText(dialer.data(), dialer.size()));
  AppendField(message, AsText(listener.data(), listener.size()));
  AppendField(message, claims);
  return Mac(secret, message);
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool EqualInConstantTime(const MacTag& a, const MacTag& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string PublicNameOf(const JobSecret& secret, std::string_view purpose) {
  std::string message;
  AppendField(message, "everstep public name");
  AppendField(message, purpose);
  return ToHex(Mac(secret, message).data(), 16);
}

}  // namespace everstep
