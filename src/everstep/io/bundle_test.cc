// io: bundles against bytes that TensorFlow wrote, and against damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bundle.pb.h"
#include "everstep/io/bundle_reader.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"
#include "everstep/io/publish.h"
#include "everstep/io/table_reader.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

// The index that TensorFlow wrote for float scalars a, b and c.
const std::string kTensorFlowIndex = absl::HexStringToBytes(
    "00000608011a02080100010b61080112002804350638271f00010d6208011200200428043510fd784f00010d630801"
    "12"
    "002008280435efd682c3"
    "000000000100000000e415b6bc000000000100000000c0f2a1b000010264004200000000010000000058b2e9f74708"
    "54"
    "0e"
    "0000000000000000000000000000000000000000000000000000000000000000000000005"
    "7fb808b247547db");

template <typename T>
TensorSpan Tensor(std::string name, DType dtype, std::vector<int64_t> shape,
                  std::vector<T>& values) {
  return {std::move(name), dtype, std::move(shape), reinterpret_cast<std::byte*>(values.data())};
}

class BundleTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, std::string_view bytes) {
    ASSERT_TRUE(PublishFile(fs_, dir_.File(name), bytes).ok());
  }
  std::string Get(const std::string& name) { return ReadWholeFile(fs_, dir_.File(name)).value(); }
  absl::Status OpenAndVerify() {
    auto reader = BundleReader::Open(fs_, prefix_);
    return reader.ok() ? (*reader)->Verify() : reader.status();
  }
  static absl::Status Finish(const BundleWriter& writer) {
    const absl::Status status = writer.WriteShard(0, 1);
    return status.ok() ? writer.WriteIndex(1) : status;
  }
  // A bundle with several types, a string and an empty tensor.
  void WriteSample() {
    BundleWriter writer(fs_, prefix_);
    ASSERT_TRUE(writer.Add(Tensor("w", DType::kFloat32, {2, 3}, floats_)).ok());
    ASSERT_TRUE(writer.Add(Tensor("step", DType::kInt64, {}, ints_)).ok());
    ASSERT_TRUE(writer.AddString("note", "hello").ok());
    ASSERT_TRUE(writer.Add(Tensor("empty", DType::kUInt8, {0, 7}, bytes_)).ok());
    ASSERT_TRUE(writer.Add(Tensor("bytes", DType::kUInt8, {3}, bytes_)).ok());
    ASSERT_TRUE(Finish(writer).ok());
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
  const std::string prefix_ = dir_.File("state");
  std::vector<float> floats_ = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> ints_ = {-7};
  std::vector<uint8_t> bytes_ = {9, 8, 7};
};

TEST_F(BundleTest, TheIndexIsByteForByteTensorFlows) {
  ASSERT_EQ(kTensorFlowIndex.size(), 151u);
  std::vector<float> values = {0.5f, 2.0f, 3.0f};  // what the stored CRCs are those of
  Put("state.index", kTensorFlowIndex);
  Put("state.data-00000-of-00001", {reinterpret_cast<const char*>(values.data()), 12});
  EXPECT_TRUE(OpenAndVerify().ok()) << OpenAndVerify();
  auto theirs = BundleReader::Open(fs_, prefix_);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  ASSERT_EQ((*theirs)->entries().size(), 3u);
  EXPECT_EQ((*theirs)->entries()[1].name, "b");
  float b = 0;
  ASSERT_TRUE(
      (*theirs)->Read((*theirs)->entries()[1], {reinterpret_cast<std::byte*>(&b), sizeof b}).ok());
  EXPECT_EQ(b, 2.0f);
  BundleWriter writer(fs_, prefix_);
  const char* const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        writer.Add({names[i], DType::kFloat32, {}, reinterpret_cast<std::byte*>(&values[i])}).ok());
  }
  ASSERT_TRUE(Finish(writer).ok());
  EXPECT_EQ(absl::BytesToHexString(Get("state.index")), absl::BytesToHexString(kTensorFlowIndex));
  EXPECT_TRUE(OpenAndVerify().ok());
}

TEST_F(BundleTest, AStringsBytesAndChecksumAreTensorFlows) {
  // The tensor ["abc", ""] and its entry's masked CRC.
  format::BundleEntryProto entry;
  BundleWriter writer(fs_, prefix_);
  ASSERT_TRUE(writer.AddString("s", "abc").ok());
  ASSERT_TRUE(Finish(writer).ok());
  // Swap in TensorFlow's bytes for two strings under an index of our making.
  const std::string data = absl::HexStringToBytes("0300b099490e616263");
  entry.set_dtype(7);
  entry.mutable_shape()->add_dim()->set_size(2);
  entry.set_size(9);
  entry.set_crc32c(0x0a339069);
  std::string block;
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>("", std::string("\x08\x01\x1a\x02\x08\x01", 6)),
        std::pair<std::string, std::string>("s", entry.SerializeAsString())}) {
    AppendVarint(&block, 0);
    AppendVarint(&block, key.size());
    AppendVarint(&block, value.size());
    block += key + value;
  }
  std::string table;
  auto add_block = [&table](std::string contents) {
    contents += std::string("\0\0\0\0\1\0\0\0", 8);
    std::string handle;
    AppendVarint(&handle, table.size());
    AppendVarint(&handle, contents.size());
    contents.push_back('\0');
    AppendLittle(&contents, MaskCrc32c(Crc32c(contents)));
    table += contents;
    return handle;
  };
  const std::string data_handle = add_block(block);
  const std::string meta_handle = add_block("");
  const std::string index_handle =
      add_block(std::string("\0\1", 2) + static_cast<char>(data_handle.size()) + "t" + data_handle);
  std::string footer = meta_handle + index_handle;
  footer.resize(40);
  AppendLittle(&footer, uint64_t{0xdb4775248b80fb57});
  Put("state.index", table + footer);
  Put("state.data-00000-of-00001", data);
  auto reader = BundleReader::Open(fs_, prefix_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->ReadStrings(*(*reader)->Find("s")).value(),
            (std::vector<std::string>{"abc", ""}));
  EXPECT_TRUE((*reader)->Verify().ok()) << (*reader)->Verify();
}

TEST_F(BundleTest, AStringOfManyPiecesIsChecked) {
  BundleWriter writer(fs_, prefix_);
  ASSERT_TRUE(writer.AddString("s", std::string((5 << 20) + 3, 'x')).ok());
  ASSERT_TRUE(Finish(writer).ok());
  EXPECT_TRUE(OpenAndVerify().ok()) << OpenAndVerify();
  const std::string good = Get("state.data-00000-of-00001");
  for (size_t at : {size_t{0}, size_t{5}, size_t{1} << 20, good.size() - 1}) {
    std::string bad = good;
    bad[at] ^= 1;
    Put("state.data-00000-of-00001", bad);
    EXPECT_EQ(OpenAndVerify().code(), absl::StatusCode::kDataLoss) << at;
  }
}

TEST_F(BundleTest, AStringOf118BytesHasTheLengthChecksumTensorFlowWrote) {
  BundleWriter writer(fs_, prefix_);
  ASSERT_TRUE(writer.AddString("s", std::string(118, 'x')).ok());
  ASSERT_TRUE(Finish(writer).ok());
  EXPECT_EQ(absl::BytesToHexString(Get("state.data-00000-of-00001").substr(0, 5)), "76631e4bea");
}

TEST_F(BundleTest, WhatIsWrittenIsReadInKeyOrder) {
  WriteSample();
  auto reader = BundleReader::Open(fs_, prefix_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string names;
  for (const BundleEntry& entry : (*reader)->entries()) names += entry.name + " ";
  EXPECT_EQ(names, "bytes empty note step w ");
  const BundleEntry* w = (*reader)->Find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> floats(6);
  ASSERT_TRUE((*reader)->Read(*w, {reinterpret_cast<std::byte*>(floats.data()), 24}).ok());
  EXPECT_EQ(floats, floats_);
  EXPECT_EQ((*reader)->ReadStrings(*(*reader)->Find("note")).value(),
            std::vector<std::string>{"hello"});
  EXPECT_EQ((*reader)->Find("x"), nullptr);
  EXPECT_EQ((*reader)->Find("zzz"), nullptr);
  EXPECT_TRUE((*reader)->Verify().ok());
}

TEST_F(BundleTest, ManyTensorsMakeManyBlocks) {
  BundleWriter writer(fs_, prefix_);
  ints_.resize(20000);
  for (int i = 0; i < 20000; ++i) {
    ints_[i] = i;
    ASSERT_TRUE(writer
                    .Add({"layer/" + std::to_string(i),
                          DType::kInt64,
                          {},
                          reinterpret_cast<std::byte*>(&ints_[i])})
                    .ok());
  }
  ASSERT_TRUE(Finish(writer).ok());
  EXPECT_GT(Get("state.index").size(), 262144u);  // the block size
  auto reader = BundleReader::Open(fs_, prefix_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->entries().size(), 20000u);
  int64_t value = 0;
  ASSERT_TRUE((*reader)
                  ->Read(*(*reader)->Find("layer/12345"),
                         {reinterpret_cast<std::byte*>(&value), sizeof value})
                  .ok());
  EXPECT_EQ(value, 12345);
}

TEST_F(BundleTest, TwoTensorsOfOneNameAreRefused) {
  BundleWriter writer(fs_, prefix_);
  ASSERT_TRUE(writer.Add(Tensor("w", DType::kInt64, {}, ints_)).ok());
  EXPECT_EQ(writer.Add(Tensor("w", DType::kInt64, {}, ints_)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer.AddString("w", "").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BundleTest, ShardsTogetherHoldWhatOneFileHoldsInTheSameOrder) {
  // The writers hold equal tensors, each in memory of its own.
  std::vector<std::vector<uint8_t>> tensors;
  for (int i = 0; i < 40; ++i) tensors.emplace_back(i * 13 % 37, static_cast<uint8_t>(i));
  auto fill = [](std::vector<std::vector<uint8_t>>& memory, BundleWriter* writer) {
    for (size_t i = 0; i < memory.size(); ++i) {
      const std::vector<int64_t> shape = {static_cast<int64_t>(memory[i].size())};
      ASSERT_TRUE(
          writer->Add(Tensor("t" + std::to_string(i), DType::kUInt8, shape, memory[i])).ok());
    }
    ASSERT_TRUE(writer->AddString("note", "hello").ok());
  };
  BundleWriter one(fs_, dir_.File("one"));
  fill(tensors, &one);
  ASSERT_TRUE(Finish(one).ok());
  const std::string whole = Get("one.data-00000-of-00001");
  for (int n : {1, 2, 3, 7, 100}) {
    const std::string prefix = "of" + std::to_string(n);
    std::string joined;
    for (int k = n - 1; k >= 0; --k) {
      auto mine = tensors;
      BundleWriter writer(fs_, dir_.File(prefix));
      fill(mine, &writer);
      ASSERT_TRUE(writer.WriteShard(k, n).ok());
      const std::string bytes = Get(BundleDataPath(prefix, k, n));
      EXPECT_EQ(static_cast<int64_t>(bytes.size()), writer.ShardSizes(n)[k]);
      EXPECT_NEAR(static_cast<double>(bytes.size()), static_cast<double>(whole.size()) / n, 37);
      joined.insert(0, bytes);
      if (k == 0) {
        ASSERT_TRUE(writer.WriteIndex(n).ok());
      }
    }
    EXPECT_EQ(joined, whole);
    auto reader = BundleReader::Open(fs_, dir_.File(prefix));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->entries().size(), 41u);
    EXPECT_TRUE((*reader)->Verify().ok());
    EXPECT_EQ((*reader)->Find("note")->shard, one.ShardOf("note", n));
  }
}

TEST_F(BundleTest, ABundleOfNothingHasEmptyShards) {
  BundleWriter writer(fs_, prefix_);
  ASSERT_TRUE(writer.WriteShard(0, 2).ok());
  ASSERT_TRUE(writer.WriteShard(1, 2).ok());
  ASSERT_TRUE(writer.WriteIndex(2).ok());
  EXPECT_EQ(Get("state.data-00001-of-00002"), "");
  EXPECT_TRUE(OpenAndVerify().ok());
  for (const auto& [shard, count] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)}) {
    EXPECT_EQ(writer.WriteShard(shard, count).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(BundleTest, TheIndexHasTheChecksumsOfItsWritersMemory) {
  std::vector<float> wrong = {1, 2, 3, 4, 5, 7};
  BundleWriter mine(fs_, prefix_), theirs(fs_, prefix_);
  ASSERT_TRUE(mine.Add(Tensor("w", DType::kFloat32, {6}, floats_)).ok());
  ASSERT_TRUE(theirs.Add(Tensor("w", DType::kFloat32, {6}, wrong)).ok());
  ASSERT_TRUE(theirs.WriteShard(0, 1).ok());
  ASSERT_TRUE(mine.WriteIndex(1).ok());
  EXPECT_EQ(OpenAndVerify().code(), absl::StatusCode::kDataLoss);
}

TEST_F(BundleTest, AFlippedBitAnywhereIsFoundAndTheFileNamed) {
  WriteSample();
  for (const char* name : {"state.index", "state.data-00000-of-00001"}) {
    const std::string good = Get(name);
    for (size_t i = 0; i < good.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
        Put(name, bad);
        const absl::Status status = OpenAndVerify();
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << name << " byte " << i;
        ASSERT_THAT(std::string(status.message()), HasSubstr(dir_.File(name)));
      }
    }
    Put(name, good);
  }
}

TEST_F(BundleTest, TruncationAnywhereIsFound) {
  WriteSample();
  for (const char* name : {"state.index", "state.data-00000-of-00001"}) {
    const std::string good = Get(name);
    for (size_t size = 0; size < good.size(); ++size) {
      Put(name, good.substr(0, size));
      ASSERT_EQ(OpenAndVerify().code(), absl::StatusCode::kDataLoss) << name << " size " << size;
    }
    Put(name, good);
  }
}

TEST_F(BundleTest, AMissingIndexIsNotFoundAMissingDataFileIsDataLoss) {
  WriteSample();
  ASSERT_TRUE(fs_.Remove(dir_.File("state.data-00000-of-00001")).ok());
  EXPECT_EQ(OpenAndVerify().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(fs_.Remove(dir_.File("state.index")).ok());
  EXPECT_EQ(OpenAndVerify().code(), absl::StatusCode::kNotFound);
}

TEST(TableReader, RandomDamageWithRepairedChecksumsNeverReadsOutside) {
  // Under AddressSanitizer this is the proof; without it, that nothing hangs or throws.
  uint64_t random = 1;
  auto next = [&random] { return random = random * 6364136223846793005u + 1442695040888963407u; };
  for (int round = 0; round < 100000; ++round) {
    std::string bytes = kTensorFlowIndex;
    for (int i = 0; i < 3; ++i) bytes[(next() >> 33) % 120] = static_cast<char>(next() >> 40);
    // Blocks [0, 67), [71, 80), [84, 99) with their type bytes; their CRCs follow.
    for (const auto& [begin, size] : {std::pair(0, 67), std::pair(71, 9), std::pair(84, 15)}) {
      const uint32_t crc = MaskCrc32c(Crc32c(std::string_view(bytes).substr(begin, size)));
      std::memcpy(&bytes[begin + size], &crc, 4);
    }
    (void)ForEachTableEntry(bytes, "test",
                            [](std::string_view, std::string_view) { return absl::OkStatus(); });
  }
}

}  // namespace
}  // namespace everstep
