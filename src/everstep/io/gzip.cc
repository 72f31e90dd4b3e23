// io: gzip by zlib.
#include "everstep/io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

constexpr int kGzipWindow = 15 + 16;
constexpr size_t kChunk = size_t{1} << 20;

absl::Status Damaged(const std::string& path, std::string_view why) {
  return absl::DataLossError(
      absl::StrCat(path, ": damaged gzip data (", std::string(why), "); fetch the file again"));
}

absl::StatusOr<std::string> Inflate(const std::string& path, std::string_view in, int64_t max_bytes,
                                    z_stream* stream) {
  std::string out;
  while (true) {
    // zlib counts in 32 bits.
    const size_t feed = std::min(in.size(), kChunk);
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream->avail_in = static_cast<uInt>(feed);
    const size_t have = out.size();
    out.resize(have + kChunk);
    stream->next_out = reinterpret_cast<Bytef*>(out.data() + have);
    stream->avail_out = kChunk;
    const int result = inflate(stream, Z_NO_FLUSH);
    in.remove_prefix(feed - stream->avail_in);
    out.resize(out.size() - stream->avail_out);
    if (static_cast<int64_t>(out.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", max_bytes, " bytes when decompressed"));
    }
    if (result == Z_STREAM_END) {
      if (in.empty()) return out;
      if (inflateReset(stream) != Z_OK) return Damaged(path, "cannot go on after a member");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(path, stream->msg != nullptr ? stream->msg : "unknown error");
    } else if (in.empty() && out.size() == have) {
      return Damaged(path, "it ends early");
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadMaybeGzip(FileSystem& fs, const std::string& path,
                                          int64_t max_bytes) {
  EV_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(fs, path));
  if (bytes.compare(0, 2, "\x1f\x8b") != 0) return bytes;
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return absl::InternalError("zlib: inflateInit2");
  absl::StatusOr<std::string> result = Inflate(path, bytes, max_bytes, &stream);
  inflateEnd(&stream);
  return result;
}

}  // namespace everstep
