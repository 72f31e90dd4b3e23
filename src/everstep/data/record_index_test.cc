// data: the index finds every record, is kept, and is made anew when it does not fit.
#include "everstep/data/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"
#include "everstep/io/tfrecord.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RecordIndexTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::vector<std::string>& payloads) {
    std::string bytes;
    for (const std::string& payload : payloads) AppendRecord(&bytes, payload);
    PutBytes(name, bytes);
  }
  void PutBytes(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(PublishFile(fs_, dir_.File(name), bytes).ok());
  }
  std::shared_ptr<const RecordIndex> Open(const std::vector<std::string>& names, bool keep = true) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(dir_.File(name));
    auto index = RecordIndex::Open(fs_, paths, keep);
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? *index : nullptr;
  }
  static std::vector<std::string> All(const RecordIndex& index) {
    std::vector<std::string> result;
    std::string scratch;
    for (int64_t i = 0; i < index.size(); ++i) {
      result.emplace_back(index.Read(i, &scratch).value());
    }
    return result;
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
};

TEST_F(RecordIndexTest, SeveralFilesAreOneSequenceEmptyOnesIncluded) {
  Put("a", {"0", "11"});
  Put("b", {});
  Put("c", {"222", "", "4"});
  Put("d", {});
  const auto index = Open({"b", "a", "b", "c", "d"});
  EXPECT_EQ(All(*index), (std::vector<std::string>{"0", "11", "222", "", "4"}));
  EXPECT_EQ(index->Describe(3), dir_.File("c") + ": record 1 (at offset 19)");
  std::string scratch;
  EXPECT_EQ(index->Read(5, &scratch).status().code(), absl::StatusCode::kInternal);
}

TEST_F(RecordIndexTest, AKeptIndexGivesTheSameAndIsUsed) {
  Put("a", {"0", "11", std::string(1000, 'x')});
  const auto fresh = Open({"a"});
  ASSERT_TRUE(fs_.Exists(dir_.File("a.evindex")));
  const auto kept = Open({"a"});
  EXPECT_EQ(All(*kept), All(*fresh));
  EXPECT_EQ(kept->fingerprint(), fresh->fingerprint());
  EXPECT_EQ(Open({"a"}, /*keep=*/false)->fingerprint(), fresh->fingerprint());
  // Used: a scan would stumble over a damaged length in the middle that the samples do not cover.
  std::vector<std::string> many(4000, std::string(1000, 'y'));
  Put("big", many);
  const uint64_t fingerprint = Open({"big"})->fingerprint();
  std::string bytes = ReadWholeFile(fs_, dir_.File("big")).value();
  const size_t record = 200 * 1016;  // between two samples
  bytes[record] ^= 1;
  PutBytes("big", bytes);
  const auto index = Open({"big"});
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->fingerprint(), fingerprint);
  std::string scratch;
  EXPECT_THAT(std::string(index->Read(200, &scratch).status().message()),
              StartsWith(dir_.File("big") + ": corrupted record at offset 203200 ("));
}

TEST_F(RecordIndexTest, AStaleOrDamagedIndexIsMadeAnew) {
  Put("a", {"0", "11"});
  Open({"a"});
  const std::string old = ReadWholeFile(fs_, dir_.File("a.evindex")).value();
  Put("a", {"00", "1"});  // same size, other lengths
  EXPECT_EQ(All(*Open({"a"})), (std::vector<std::string>{"00", "1"}));
  Put("a", {"0", "11", "2"});
  EXPECT_EQ(All(*Open({"a"})).size(), 3u);
  Put("a", {"0", "11"});
  for (size_t i = 0; i < old.size(); ++i) {
    std::string bad = old;
    bad[i] ^= 4;
    PutBytes("a.evindex", bad);
    ASSERT_EQ(All(*Open({"a"})), (std::vector<std::string>{"0", "11"}));
    PutBytes("a.evindex", old.substr(0, i));
    ASSERT_EQ(All(*Open({"a"})), (std::vector<std::string>{"0", "11"}));
    ASSERT_EQ(ReadWholeFile(fs_, dir_.File("a.evindex")).value(), old);
  }
}

TEST_F(RecordIndexTest, ADirectoryThatCannotBeWrittenIsNoError) {
  if (geteuid() == 0) {
    // Root may write anywhere: a directory in the index's place keeps it from being published.
    ASSERT_TRUE(fs_.CreateDirectories(dir_.File("a.evindex/x")).ok());
  }
  Put("a", {"0", "11"});
  if (geteuid() != 0) {
    ASSERT_EQ(chmod(dir_.path().c_str(), 0555), 0);
  }
  EXPECT_EQ(All(*Open({"a"})), (std::vector<std::string>{"0", "11"}));
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
}

TEST_F(RecordIndexTest, TheFingerprintTellsContentsAndOrderButNotNames) {
  Put("a", {"0", "11"});
  Put("b", {"x"});
  Put("c", {"0", "11"});
  Put("d", {"0", "12"});
  EXPECT_EQ(Open({"a", "b"})->fingerprint(), Open({"c", "b"})->fingerprint());
  EXPECT_NE(Open({"a", "b"})->fingerprint(), Open({"b", "a"})->fingerprint());
  EXPECT_NE(Open({"a"})->fingerprint(), Open({"d"})->fingerprint());
}

TEST_F(RecordIndexTest, ErrorsNameTheFile) {
  EXPECT_EQ(RecordIndex::Open(fs_, {}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status missing = RecordIndex::Open(fs_, {dir_.File("none")}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(dir_.File("none")));
  Put("a", {"hello"});
  PutBytes("a", ReadWholeFile(fs_, dir_.File("a")).value().substr(0, 15));
  const absl::Status truncated = RecordIndex::Open(fs_, {dir_.File("a")}).status();
  EXPECT_EQ(truncated.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(truncated.message()),
              StartsWith(dir_.File("a") + ": truncated record at offset 0"));
}

}  // namespace
}  // namespace everstep
