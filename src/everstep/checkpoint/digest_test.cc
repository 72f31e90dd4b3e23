// checkpoint: digests are of the encoding that the header describes, and stay what they are.
#include "everstep/checkpoint/digest.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "everstep/checkpoint/store.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/io/bytes.h"

namespace everstep {
namespace {

// The encoding, written out.
std::string Encoding(std::vector<TensorSpan> state) {
  std::sort(state.begin(), state.end(),
            [](const TensorSpan& a, const TensorSpan& b) { return a.name < b.name; });
  std::string bytes;
  for (const TensorSpan& tensor : state) {
    AppendLittle<uint64_t>(&bytes, tensor.name.size());
    bytes += tensor.name;
    AppendLittle(&bytes, static_cast<int32_t>(tensor.dtype));
    AppendLittle<uint64_t>(&bytes, tensor.shape.size());
    for (int64_t d : tensor.shape) AppendLittle(&bytes, d);
    AppendLittle<uint64_t>(&bytes, tensor.num_bytes());
    bytes += AsText(tensor.bytes());
  }
  return bytes;
}

TEST(Digest, IsXxh3OfTheEncoding) {
  TestState state(3);
  const std::string encoding = Encoding(state.tensors());
  EXPECT_EQ(QuickDigest(state.tensors()), XXH3_64bits(encoding.data(), encoding.size()));
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(encoding.data(), encoding.size()));
  EXPECT_EQ(DigestToBytes(FullDigest(state.tensors())),
            std::string(reinterpret_cast<const char*>(canonical.digest), 16));
}

TEST(Digest, DoesNotChangeFromReleaseToRelease) {
  TestState state(3);
  EXPECT_EQ(FullDigest(state.tensors()), "9212435a4fa3aef0ad69222f3bf1f47e");
  EXPECT_EQ(QuickDigest(state.tensors()), 12495556227380671614u);
}

TEST(Digest, TheOrderOfTheTensorsDoesNotMatter) {
  TestState state(3);
  std::vector<TensorSpan> tensors = state.tensors();
  const std::string digest = FullDigest(tensors);
  std::reverse(tensors.begin(), tensors.end());
  EXPECT_EQ(FullDigest(tensors), digest);
}

TEST(Digest, EveryBitOfNamesTypesShapesAndBytesMatters) {
  TestState state(3);
  const std::vector<TensorSpan> base = state.tensors();
  std::set<std::string> full = {FullDigest(base)};
  std::set<uint64_t> quick = {QuickDigest(base)};
  size_t variants = 1;
  auto add = [&](const std::vector<TensorSpan>& tensors) {
    ++variants;
    full.insert(FullDigest(tensors));
    quick.insert(QuickDigest(tensors));
  };
  for (size_t t = 0; t < base.size(); ++t) {
    std::vector<TensorSpan> other = base;
    other[t].name += "x";
    add(other);
    other = base;
    other.erase(other.begin() + static_cast<int64_t>(t));
    add(other);
    other = base;
    other[t].shape.push_back(1);
    add(other);
    for (int64_t i = 0; i < base[t].num_bytes(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        base[t].data[i] ^= static_cast<std::byte>(1 << bit);
        add(base);
        base[t].data[i] ^= static_cast<std::byte>(1 << bit);
      }
    }
  }
  std::vector<TensorSpan> other = base;
  other[0].dtype = DType::kInt32;
  add(other);
  other = base;
  other[0].shape = {4, 3};
  add(other);
  EXPECT_EQ(full.size(), variants);
  EXPECT_EQ(quick.size(), variants);
}

}  // namespace
}  // namespace everstep
