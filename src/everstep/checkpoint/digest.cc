// checkpoint: digests by XXH3.
#include "everstep/checkpoint/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <vector>

#include "absl/strings/escaping.h"
#include "everstep/base/string_view.h"
#include "everstep/checkpoint/store.h"

namespace everstep {

struct DigestStream::State {
  Width width;
  XXH3_state_t* xxh;
};

DigestStream::DigestStream(Width width) : state_(new State{width, XXH3_createState()}) {
  if (state_->xxh == nullptr) throw std::bad_alloc();
  if (width == k64) {
    XXH3_64bits_reset(state_->xxh);
  } else {
    XXH3_128bits_reset(state_->xxh);
  }
}

DigestStream::~DigestStream() { XXH3_freeState(state_->xxh); }

void DigestStream::AddRaw(const void* data, size_t size) {
  if (state_->width == k64) {
    XXH3_64bits_update(state_->xxh, data, size);
  } else {
    XXH3_128bits_update(state_->xxh, data, size);
  }
}

void DigestStream::Begin(std::string_view name, int32_t dtype, absl::Span<const int64_t> shape,
                         int64_t num_bytes) {
  const uint64_t length = name.size(), rank = shape.size();
  AddRaw(&length, sizeof length);
  AddRaw(name.data(), name.size());
  AddRaw(&dtype, sizeof dtype);
  AddRaw(&rank, sizeof rank);
  AddRaw(shape.data(), shape.size() * sizeof(int64_t));
  AddRaw(&num_bytes, sizeof num_bytes);
}

void DigestStream::Add(absl::Span<const std::byte> bytes) { AddRaw(bytes.data(), bytes.size()); }

uint64_t DigestStream::Finish64() const { return XXH3_64bits_digest(state_->xxh); }

std::string DigestStream::Finish128() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  return BytesToDigest({reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest});
}

namespace {

void AddState(absl::Span<const TensorSpan> state, DigestStream* stream) {
  std::vector<const TensorSpan*> sorted;
  for (const TensorSpan& tensor : state) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorSpan* a, const TensorSpan* b) { return a->name < b->name; });
  for (const TensorSpan* tensor : sorted) {
    stream->Begin(tensor->name, static_cast<int32_t>(tensor->dtype), tensor->shape,
                  tensor->num_bytes());
    stream->Add(tensor->bytes());
  }
}

}  // namespace

std::string FullDigest(absl::Span<const TensorSpan> state) {
  DigestStream stream(DigestStream::k128);
  AddState(state, &stream);
  return stream.Finish128();
}

uint64_t QuickDigest(absl::Span<const TensorSpan> state) {
  DigestStream stream(DigestStream::k64);
  AddState(state, &stream);
  return stream.Finish64();
}

std::string DigestToBytes(const std::string& hex) { return absl::HexStringToBytes(hex); }
std::string BytesToDigest(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

}  // namespace everstep
