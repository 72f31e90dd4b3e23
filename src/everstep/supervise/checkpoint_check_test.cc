// supervise: verification of checkpoints, with damage.
#include "everstep/supervise/checkpoint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bundle_writer.h"

namespace everstep {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CheckpointCheckTest : public ::testing::Test {
 protected:
  CheckpointCheckTest() { std::iota(numbers_.begin(), numbers_.end(), 0.f); }

  // `when` orders them.
  FoundCheckpoint Save(const std::string& name, double when,
                       CheckpointKind kind = CheckpointKind::kTensorFlow) {
    const std::string path = dir_.File(name);
    const std::string prefix =
        kind == CheckpointKind::kSavedModel ? path + "/variables/variables" : path;
    EXPECT_TRUE(fs_.CreateDirectories(prefix.substr(0, prefix.rfind('/'))).ok());
    BundleWriter writer(fs_, prefix);
    EXPECT_TRUE(writer
                    .Add({"w",
                          DType::kFloat32,
                          {static_cast<int64_t>(numbers_.size())},
                          reinterpret_cast<std::byte*>(numbers_.data())})
                    .ok());
    EXPECT_TRUE(writer.AddString("note", "hello").ok());
    EXPECT_TRUE(writer.WriteShard(0, 1).ok() && writer.WriteIndex(1).ok());
    return {path, kind, when, 1};
  }
  // One bit of a file, in its middle.
  void Damage(const std::string& name) {
    std::string bytes = ReadWholeFile(fs_, dir_.File(name)).value();
    bytes[bytes.size() / 2] ^= 4;
    auto file = fs_.OpenForWriting(dir_.File(name), FileSystem::Create::kTruncate);
    ASSERT_TRUE((*file)->Append(bytes).ok());
  }
  CheckpointVerdict Check(const FoundCheckpoint& checkpoint, Duration patience = seconds(20)) {
    return CheckCheckpoint(fs_, checkpoint, RealClock(), After(RealClock(), patience), &why_);
  }
  std::vector<std::string> Newest(const std::vector<FoundCheckpoint>& known) {
    std::vector<std::string> texts;
    for (const Note& note : CheckNewest(fs_, known, RealClock(), After(RealClock(), seconds(20)))) {
      EXPECT_EQ(note.kind, "checkpoint_rejected");
      texts.push_back(note.text);
    }
    return texts;
  }

  const TempDirectory dir_;
  FileSystem& fs_ = RealFileSystem();
  std::vector<float> numbers_ = std::vector<float>(1000);
  std::string why_;
};

TEST_F(CheckpointCheckTest, AWholeOneIsGood) {
  EXPECT_EQ(Check(Save("ckpt-1", 1)), CheckpointVerdict::kGood);
  EXPECT_EQ(Check(Save("model", 1, CheckpointKind::kSavedModel)), CheckpointVerdict::kGood);
}

TEST_F(CheckpointCheckTest, OneBitAnywhereIsFoundAndNamed) {
  const FoundCheckpoint data = Save("ckpt-1", 1), index = Save("ckpt-2", 2);
  Damage("ckpt-1.data-00000-of-00001");
  EXPECT_EQ(Check(data), CheckpointVerdict::kDamaged);
  EXPECT_THAT(why_, HasSubstr("ckpt-1.data-00000-of-00001"));
  Damage("ckpt-2.index");
  EXPECT_EQ(Check(index), CheckpointVerdict::kDamaged);
  EXPECT_THAT(why_, HasSubstr("ckpt-2.index"));
  const FoundCheckpoint model = Save("model", 1, CheckpointKind::kSavedModel);
  Damage("model/variables/variables.data-00000-of-00001");
  EXPECT_EQ(Check(model), CheckpointVerdict::kDamaged);
}

TEST_F(CheckpointCheckTest, AMissingDataFileIsDamageAndAMissingCheckpointIsNone) {
  const FoundCheckpoint checkpoint = Save("ckpt-1", 1);
  ASSERT_TRUE(fs_.Remove(dir_.File("ckpt-1.data-00000-of-00001")).ok());
  EXPECT_EQ(Check(checkpoint), CheckpointVerdict::kDamaged);
  ASSERT_TRUE(fs_.Remove(dir_.File("ckpt-1.index")).ok());
  EXPECT_EQ(Check(checkpoint), CheckpointVerdict::kUnknown) << "its program has deleted it";
}

TEST_F(CheckpointCheckTest, OtherFormatsAreNotJudged) {
  EXPECT_EQ(Check({dir_.File("x.pt"), CheckpointKind::kOther, 1, 1}), CheckpointVerdict::kUnknown);
}

// Every file is a large one of zeros; counts what is read of it.
class HugeIndexFiles : public MemoryFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string&) override {
    return std::make_unique<Huge>(&read_);
  }
  bool Exists(const std::string&) override { return true; }
  int64_t read() const { return read_; }

 private:
  class Huge : public RandomAccessFile {
   public:
    explicit Huge(int64_t* read) : read_(*read) {}
    int64_t size() const override { return int64_t{65} << 20; }
    absl::Status ReadAt(int64_t, absl::Span<std::byte> out) const override {
      read_ += static_cast<int64_t>(out.size());
      std::fill(out.begin(), out.end(), std::byte{0});
      return absl::OkStatus();
    }

   private:
    int64_t& read_;
  };
  int64_t read_ = 0;
};

TEST_F(CheckpointCheckTest, AHugeFileThatIsNamedLikeAnIndexIsNeitherReadNorJudged) {
  HugeIndexFiles files;
  EXPECT_EQ(CheckCheckpoint(files, {"/d/faiss", CheckpointKind::kTensorFlow, 1, 1}, RealClock(),
                            After(RealClock(), seconds(20)), &why_),
            CheckpointVerdict::kUnknown);
  EXPECT_EQ(files.read(), 0);
}

TEST_F(CheckpointCheckTest, NoTimeIsNoVerdict) {
  const FoundCheckpoint checkpoint = Save("ckpt-1", 1);
  Damage("ckpt-1.data-00000-of-00001");
  EXPECT_EQ(Check(checkpoint, -seconds(1)), CheckpointVerdict::kUnknown);
}

TEST_F(CheckpointCheckTest, ADamagedNewestIsNamedWithTheGoodOneBeforeIt) {
  const auto a = Save("ckpt-4", 4), b = Save("ckpt-5", 5);
  EXPECT_THAT(Newest({b, a}), IsEmpty());
  Damage("ckpt-5.data-00000-of-00001");
  EXPECT_THAT(Newest({b, a}),
              ElementsAre(AllOf(HasSubstr("checkpoint " + b.path + " is damaged: "),
                                HasSubstr("the one before it, " + a.path + ", is good"),
                                HasSubstr(dir_.File("checkpoint")), Not(HasSubstr("\n")))));
}

TEST_F(CheckpointCheckTest, TheGoodOneMayBeOlderStill) {
  const auto a = Save("ckpt-3", 3), b = Save("ckpt-4", 4), c = Save("ckpt-5", 5);
  Damage("ckpt-5.index");
  Damage("ckpt-4.index");
  EXPECT_THAT(Newest({c, b, a}), ElementsAre(HasSubstr("an older one, " + a.path + ", is good")));
  Damage("ckpt-3.index");
  EXPECT_THAT(Newest({c, b, a}), ElementsAre(HasSubstr("no older one that is good")));
}

TEST_F(CheckpointCheckTest, OneOfAnotherDirectoryIsNotTheOneBefore) {
  const auto a = Save("other/ckpt-4", 4), b = Save("ckpt-5", 5);
  Damage("ckpt-5.index");
  EXPECT_THAT(Newest({b, a}), ElementsAre(HasSubstr("no older one that is good")));
}

TEST_F(CheckpointCheckTest, TheNewestOfEachDirectoryIsChecked) {
  const auto a = Save("one/ckpt-1", 1), b = Save("two/ckpt-2", 2), c = Save("two/ckpt-3", 3);
  Damage("one/ckpt-1.index");
  Damage("two/ckpt-2.index");
  EXPECT_THAT(Newest({c, b, a}), ElementsAre(HasSubstr("one/ckpt-1 is damaged")));
}

TEST_F(CheckpointCheckTest, OneThatIsGoneGivesWayToTheNext) {
  const auto a = Save("ckpt-4", 4);
  Damage("ckpt-4.index");
  EXPECT_THAT(Newest({{dir_.File("ckpt-5"), CheckpointKind::kTensorFlow, 5, 1}, a}),
              ElementsAre(HasSubstr("ckpt-4 is damaged")));
}

}  // namespace
}  // namespace everstep
