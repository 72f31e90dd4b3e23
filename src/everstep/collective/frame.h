// collective: what goes over a link between members that do not share memory, and the farewell that
// goes over every link: a header of fixed size, then `bytes` bytes. All numbers little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/step.h"
#include "everstep/base/view.h"

namespace everstep {

enum class FrameKind : uint16_t {
  kPartial = 1,   // a chunk of a group's partial sum, to the slice's owner
  kResult = 2,    // a chunk of the sum, from the slice's owner
  kVote = 3,      // a VoteRecord
  kFarewell = 4,  // the sender has left the view and stores nothing any more; text: why
  kPing = 5,      // nothing: sent so that the other host has something to acknowledge
};

struct Frame {
  FrameKind kind = FrameKind::kVote;
  ViewId view;
  Round round = 0;
  int32_t bucket = 0;
  int32_t owner = 0;  // rank of the slice's owner; farewell: the rank blamed, or -1
  int32_t node = 0;   // which of the group's nodes
  int64_t offset =
      0;  // of the chunk, in floats from the slice's start; votes: the conclusion's number
  uint32_t bytes = 0;  // that follow
};

constexpr size_t kFrameHeaderBytes = 64;
constexpr uint32_t kMaxFrameBytes = 1 << 20;
constexpr uint32_t kMaxFarewellBytes = 1024;
using FrameHeader = std::array<std::byte, kFrameHeaderBytes>;

FrameHeader EncodeFrame(const Frame& frame);
// kInvalidArgument when the magic, the check sum, the kind or the length is wrong.
absl::StatusOr<Frame> DecodeFrame(absl::Span<const std::byte> header);

// CRC32C, for headers only: the bytes of tensors are checked by the digests of the state.
uint32_t HeaderChecksum(absl::Span<const std::byte> bytes);

// Little-endian numbers in byte strings, for headers and handshakes.
class ByteWriter {
 public:
  explicit ByteWriter(std::byte* at) : at_(at) {}
  template <typename T>
  ByteWriter& Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      *at_++ = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
    }
    return *this;
  }

 private:
  std::byte* at_;
};

class ByteReader {
 public:
  explicit ByteReader(const std::byte* at) : at_(at) {}
  template <typename T>
  T Get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(*at_++)) << (8 * i);
    }
    return static_cast<T>(value);
  }

 private:
  const std::byte* at_;
};

}  // namespace everstep
