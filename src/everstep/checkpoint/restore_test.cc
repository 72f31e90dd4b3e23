// checkpoint: which checkpoint Restore takes, which it passes over, and with what history the job
// goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/format.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

// A state with a seed.
struct Seeded : TestState {
  explicit Seeded(Step step, int64_t seed = 5) : TestState(step), seed(seed) {}
  std::vector<TensorSpan> tensors() {
    std::vector<TensorSpan> all = TestState::tensors();
    all.push_back({"seed", DType::kInt64, {}, Bytes(&seed)});
    return all;
  }
  int64_t seed;
};

class RestoreTest : public ::testing::Test {
 protected:
  RestoreTest() { EXPECT_TRUE(fs_.CreateDirectories("/job").ok()); }
  static DirectoryStoreOptions In(const std::string& directory, const std::string& only = "") {
    return {directory, 0, 0, only, ""};
  }
  void Save(const CheckpointId& id, int64_t seed = 5, const std::string& directory = "/job/c") {
    Seeded state(id.step, seed);
    ASSERT_TRUE(fs_.CreateDirectories(DirectoryOf(directory)).ok());
    DirectoryStore store(fs_, In(directory));
    ASSERT_TRUE(store.SaveShard(id, state.tensors(), {0, 2}).ok());
    ASSERT_TRUE(store.SaveShard(id, state.tensors(), {1, 2}).ok());
    ASSERT_TRUE(store.Commit(id, state.tensors(), 2).ok());
  }
  void Save(Step step) { Save({step, 0, {1, 1}}); }
  std::string Path(Step step) { return "/job/c/" + CheckpointId{step, 0, {1, 1}}.DirectoryName(); }
  void Damage(Step step) {
    const std::string path = Path(step) + "/state.data-00001-of-00002";
    std::string bytes = ReadWholeFile(fs_, path).value();
    bytes.back() ^= 1;
    ASSERT_TRUE(PublishFile(fs_, path, bytes).ok());
  }
  // What Restore says; that it filled `got_` with the state of the step that it names.
  absl::StatusOr<RestoredCheckpoint> Restore(const std::string& only = "") {
    got_ = Seeded(999);
    DirectoryStore store(fs_, In("/job/c", only));
    auto restored = store.Restore(got_.tensors());
    if (restored.ok()) {
      Seeded want(restored->id.step);
      EXPECT_EQ(FullDigest(got_.tensors()), FullDigest(want.tensors()));
    }
    return restored;
  }

  MemoryFileSystem fs_;
  Seeded got_{0};
};

TEST_F(RestoreTest, NoCheckpointAtAllIsNotFoundAndLeavesTheMemoryAlone) {
  Seeded before(999);
  EXPECT_EQ(Restore().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FullDigest(got_.tensors()), FullDigest(before.tensors()));
  ASSERT_TRUE(fs_.CreateDirectories("/job/c/other").ok());
  ASSERT_TRUE(PublishFile(fs_, "/job/c/step-1", "a file").ok());
  EXPECT_EQ(Restore().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RestoreTest, TheNewestIsTakenByHistoryThenStepThenView) {
  Save({100, 0, {1, 1}});
  Save({30, 1, {1, 2}});
  Save({30, 1, {2, 1}});
  Save({20, 1, {3, 1}});
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id, (CheckpointId{30, 1, {2, 1}}));
  EXPECT_EQ(restored->history, 1);
  EXPECT_TRUE(restored->rejected.empty());
}

TEST_F(RestoreTest, DamagedOnesArePassedOverAndToldNewestFirst) {
  for (Step s : {10, 20, 30, 40}) Save(s);
  Damage(30);
  ASSERT_TRUE(fs_.Remove(Path(40) + "/state.index").ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id.step, 20);
  EXPECT_EQ(restored->history, 0);
  ASSERT_EQ(restored->rejected.size(), 2u);
  EXPECT_EQ(restored->rejected[0].id.step, 40);
  EXPECT_EQ(restored->rejected[0].path, Path(40));
  EXPECT_THAT(std::string(restored->rejected[0].why.message()), HasSubstr("missing index"));
  EXPECT_EQ(restored->rejected[1].id.step, 30);
  EXPECT_EQ(restored->rejected[1].why.code(), absl::StatusCode::kDataLoss);
}

TEST_F(RestoreTest, WhenAllAreDamagedThatIsDataLossAndNotABeginning) {
  Save(10);
  Damage(10);
  EXPECT_EQ(Restore().status().code(), absl::StatusCode::kDataLoss);
  // Not even a name or an index is left.
  ASSERT_TRUE(fs_.Rename(Path(10), "/job/c/x").ok());
  ASSERT_TRUE(fs_.Remove("/job/c/x/state.index").ok());
  EXPECT_EQ(Restore().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(RestoreTest, AJobBegunFromACheckpointFallsBackToItWhileItHasNoGoodOneOfItsOwn) {
  Save({50, 0, {1, 1}}, 5, "/other/c");
  DirectoryStoreOptions options = In("/job/c");
  options.origin = "/other/c/step-50-h0-v1.1";
  DirectoryStore store(fs_, options);
  auto restored = store.Restore(got_.tensors());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id.step, 50);
  EXPECT_FALSE(restored->is_newest) << "a restart must find it in the job itself";
  Save(60);
  EXPECT_EQ(store.Restore(got_.tensors()).value().id.step, 60);
  Damage(60);
  restored = store.Restore(got_.tensors());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id.step, 50);
  ASSERT_EQ(restored->rejected.size(), 1u);
  EXPECT_EQ(restored->history, 1) << "what comes now is newer than what was passed over";
  Seeded want(50);
  EXPECT_EQ(FullDigest(got_.tensors()), FullDigest(want.tensors()));
}

TEST_F(RestoreTest, TheContentCountsNotTheName) {
  Save(10);
  Save(20);
  ASSERT_TRUE(fs_.Rename(Path(20), "/job/c/my favourite").ok());
  EXPECT_EQ(Restore().value().id.step, 20);
  ASSERT_TRUE(fs_.Rename(Path(10), Path(30)).ok());
  EXPECT_EQ(Restore().value().id.step, 20);
  ASSERT_TRUE(fs_.Rename("/job/c/my favourite", "/job/c/.hidden").ok());
  EXPECT_EQ(Restore().value().id.step, 10);
}

TEST_F(RestoreTest, AnotherModelsOrSeedsAreForeign) {
  Save(10);
  Save({20, 0, {1, 1}}, /*seed=*/6);
  TestState other(30);  // without a seed
  DirectoryStore store(fs_, In("/job/c"));
  ASSERT_TRUE(store.SaveShard({30, 0, {1, 1}}, other.tensors(), {}).ok());
  ASSERT_TRUE(store.Commit({30, 0, {1, 1}}, other.tensors(), 1).ok());
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id.step, 10);
  ASSERT_EQ(restored->rejected.size(), 2u);
  EXPECT_THAT(std::string(restored->rejected[0].why.message()),
              HasSubstr("tensor \"seed\" is not in it"));
  EXPECT_THAT(std::string(restored->rejected[1].why.message()),
              HasSubstr("its seed is 6, this job's is 5"));
  Damage(10);
  EXPECT_EQ(Restore().status().code(), absl::StatusCode::kFailedPrecondition);
}

// Removes a directory when its index is opened for the second time: once it is listed, then read.
class Retiring : public MemoryFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) override {
    if (path == victim + "/state.index" && ++opened % 2 == 0) {
      EXPECT_TRUE(RemoveTree(victim).ok());
      instead();
    }
    return MemoryFileSystem::OpenForReading(path);
  }
  std::string victim;
  std::function<void()> instead = [] {};
  int opened = 0;
};

TEST(RestoreRace, OneThatIsRetiredWhileItIsReadMeansThatNewerOnesHaveCome) {
  Retiring fs;
  ASSERT_TRUE(fs.CreateDirectories("/c").ok());
  DirectoryStore store(fs, {"/c", 0, 0, ""});
  auto save = [&](Step step) {
    Seeded state(step);
    ASSERT_TRUE(store.SaveShard({step, 0, {1, 1}}, state.tensors(), {}).ok());
    ASSERT_TRUE(store.Commit({step, 0, {1, 1}}, state.tensors(), 1).ok());
  };
  save(10);
  fs.victim = store.PathOf({10, 0, {1, 1}});
  fs.instead = [&] {
    fs.victim = "none";
    save(20);
  };
  Seeded got(0);
  const auto restored = store.Restore(got.tensors());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->id.step, 20);
  EXPECT_TRUE(restored->rejected.empty());
  // None has come: that is not the same as that there never was one.
  fs.victim = store.PathOf({20, 0, {1, 1}});
  fs.opened = 0;
  fs.instead = [] {};
  EXPECT_EQ(store.Restore(got.tensors()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RestoreTest, AVersionOneCheckpointIsWhatItsDirectoryIsCalled) {
  Save(10);
  for (const char* name : {"step-20-h0-v1.1", "old one"}) {
    Seeded state(20);
    std::string digest = DigestToBytes(FullDigest(state.tensors()));
    const std::string path = JoinPath("/job/c", name);
    ASSERT_TRUE(fs_.CreateDirectories(path).ok());
    BundleWriter writer(fs_, CheckpointPrefix(path));
    for (const TensorSpan& tensor : state.tensors()) ASSERT_TRUE(writer.Add(tensor).ok());
    ASSERT_TRUE(
        writer.Add({kDigestKey, DType::kUInt8, {16}, TestState::Bytes(digest.data())}).ok());
    ASSERT_TRUE(writer.WriteShard(0, 1).ok());
    ASSERT_TRUE(writer.WriteIndex(1).ok());
    EXPECT_EQ(Restore().value().id.step, 20) << name;
    ASSERT_TRUE(fs_.RemoveTree(path).ok());
  }
}

TEST_F(RestoreTest, ALaterFormatIsPassedOverAndAloneRefused) {
  Seeded state(20);
  ASSERT_TRUE(fs_.CreateDirectories("/job/c/step-20-h0-v1.1").ok());
  BundleWriter writer(fs_, "/job/c/step-20-h0-v1.1/state");
  ASSERT_TRUE(writer.AddString(kMetaKey, "{\"format\":\"everstep.checkpoint.v3\"}").ok());
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  ASSERT_TRUE(writer.WriteIndex(1).ok());
  const absl::Status alone = Restore().status();
  EXPECT_EQ(alone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(alone.message()), HasSubstr("everstep.checkpoint.v3"));
  Save(10);
  EXPECT_EQ(Restore().value().id.step, 10);
}

TEST_F(RestoreTest, OnlyIsThatOneOrAnError) {
  for (Step s : {10, 20, 30}) Save(s);
  EXPECT_EQ(Restore(Path(20)).value().id.step, 20);
  EXPECT_EQ(Restore(Path(20) + "/state").value().id.step, 20);
  EXPECT_TRUE(Restore(Path(20))->rejected.empty());
  Damage(20);
  EXPECT_EQ(Restore(Path(20)).status().code(), absl::StatusCode::kDataLoss);
  // Not kNotFound: a job must not begin anew because of a wrong path.
  EXPECT_EQ(Restore("/job/none").status().code(), absl::StatusCode::kFailedPrecondition);
  Save({40, 0, {1, 1}}, /*seed=*/6);
  EXPECT_EQ(Restore(Path(40)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RestoreTest, GoingBackToAnOlderOneBeginsAHistoryOfItsOwn) {
  for (Step s : {10, 20}) Save(s);
  EXPECT_EQ(Restore(Path(20))->history, 0);
  EXPECT_EQ(Restore(Path(10))->history, 1);
  EXPECT_EQ(Restore(Path(10))->id.history, 0);
  Save({15, 4, {2, 1}});
  EXPECT_EQ(Restore(Path(20))->history, 5);
  // What is saved from then on is the newest.
  Save({11, 5, {3, 1}});
  EXPECT_EQ(Restore().value().id.step, 11);
}

TEST_F(RestoreTest, OneFromElsewhereKeepsItsHistoryWhereNothingNewerIs) {
  Save({10, 3, {1, 1}}, 5, "/elsewhere");
  const std::string other = "/elsewhere/step-10-h3-v1.1";
  EXPECT_EQ(Restore(other)->history, 3);
  Save(20);
  EXPECT_EQ(Restore(other)->history, 3);
  Save({5, 7, {1, 1}});
  EXPECT_EQ(Restore(other)->history, 8);
}

}  // namespace
}  // namespace everstep
