// io: gzip files, whole and damaged.
#include "everstep/io/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

std::string Gzip(std::string text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class GzipTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Read(std::string_view bytes, int64_t max_bytes = 1 << 30) {
    EXPECT_TRUE(PublishFile(RealFileSystem(), dir_.File("f"), bytes).ok());
    return ReadMaybeGzip(RealFileSystem(), dir_.File("f"), max_bytes);
  }
  TempDirectory dir_;
};

TEST_F(GzipTest, PlainFilesAreReadAsTheyAre) { EXPECT_EQ(Read("plain").value(), "plain"); }

TEST_F(GzipTest, OneMemberAndSeveralAreDecompressed) {
  std::string big;
  for (uint32_t i = 0; i < 3000000; ++i) big.push_back(static_cast<char>(i * i >> 7));
  EXPECT_EQ(Read(Gzip("hello")).value(), "hello");
  EXPECT_EQ(Read(Gzip("")).value(), "");
  EXPECT_EQ(Read(Gzip(big) + Gzip("!")).value(), big + "!");
}

TEST_F(GzipTest, TruncationIsFoundAndDamageIsFoundOrHarmless) {
  const std::string text = "a text that is long enough to be compressed, compressed";
  const std::string good = Gzip(text);
  for (size_t size = 2; size < good.size(); ++size) {
    EXPECT_EQ(Read(good.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  int harmless = 0;
  for (size_t i = 10; i < good.size(); ++i) {  // the header's time and system do not matter
    std::string bad = good;
    bad[i] ^= 0x10;
    const absl::StatusOr<std::string> read = Read(bad);
    // Some bits pad the last byte of the stream.
    if (read.ok()) {
      EXPECT_EQ(*read, text) << i;
      ++harmless;
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << i;
    }
  }
  EXPECT_LE(harmless, 1);
}

TEST_F(GzipTest, ABombIsRefused) {
  EXPECT_EQ(Read(Gzip(std::string(10 << 20, 'x')), 1 << 20).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace everstep
