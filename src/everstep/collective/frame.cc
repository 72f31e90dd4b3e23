// collective: frames as bytes.
#include "everstep/collective/frame.h"

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

constexpr uint32_t kMagic = 0x4d525645;  // "EVRM"
constexpr size_t kChecksumAt = kFrameHeaderBytes - sizeof(uint32_t);

std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

}  // namespace

uint32_t HeaderChecksum(absl::Span<const std::byte> bytes) {
  static const std::array<uint32_t, 256> table = MakeTable();
  uint32_t crc = 0xffffffffu;
  for (std::byte b : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(b)) & 0xff];
  return crc ^ 0xffffffffu;
}

FrameHeader EncodeFrame(const Frame& frame) {
  FrameHeader header{};
  ByteWriter(header.data())
      .Put(kMagic)
      .Put(static_cast<uint32_t>(frame.kind))
      .Put(frame.view.term)
      .Put(frame.view.id)
      .Put(frame.round)
      .Put(frame.bucket)
      .Put(frame.owner)
      .Put(frame.node)
      .Put(frame.offset)
      .Put(frame.bytes);
  const uint32_t crc = HeaderChecksum(absl::MakeConstSpan(header.data(), kChecksumAt));
  ByteWriter(header.data() + kChecksumAt).Put(crc);
  return header;
}

absl::StatusOr<Frame> DecodeFrame(absl::Span<const std::byte> header) {
  if (header.size() != kFrameHeaderBytes ||
      ByteReader(header.data() + kChecksumAt).Get<uint32_t>() !=
          HeaderChecksum(header.first(kChecksumAt))) {
    return absl::InvalidArgumentError("a frame's header is damaged");
  }
  ByteReader reader(header.data());
  if (reader.Get<uint32_t>() != kMagic) return absl::InvalidArgumentError("not a frame");
  Frame frame;
  const uint32_t kind = reader.Get<uint32_t>();
  if (kind < 1 || kind > static_cast<uint32_t>(FrameKind::kPing)) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of unknown kind ", kind));
  }
  frame.kind = static_cast<FrameKind>(kind);
  frame.view.term = reader.Get<int64_t>();
  frame.view.id = reader.Get<int64_t>();
  frame.round = reader.Get<int64_t>();
  frame.bucket = reader.Get<int32_t>();
  frame.owner = reader.Get<int32_t>();
  frame.node = reader.Get<int32_t>();
  frame.offset = reader.Get<int64_t>();
  frame.bytes = reader.Get<uint32_t>();
  if (frame.bytes > kMaxFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", frame.bytes, " bytes"));
  }
  return frame;
}

}  // namespace everstep
