// supervise: what counts as a checkpoint, and where it is looked for.
#include "everstep/supervise/checkpoint_finder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"
#include "everstep/supervise/search_roots.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FinderTest : public ::testing::Test {
 protected:
  FinderTest() : finder_(Options()) {}

  CheckpointFinder::Options Options() {
    CheckpointFinder::Options options;
    options.fs = &RealFileSystem();
    options.since = WallSeconds() - 10;
    return options;
  }
  void Write(const std::string& name, const std::string& text = "bytes", double age = 0) {
    const std::string path = dir_.File(name);
    ASSERT_TRUE(RealFileSystem().CreateDirectories(DirectoryOf(path)).ok());
    auto file = RealFileSystem().OpenForWriting(path, FileSystem::Create::kTruncate);
    ASSERT_TRUE(file.ok() && (*file)->Append(text).ok());
    const double at = WallSeconds() - age;
    const timespec times[2] = {{static_cast<time_t>(at), 0}, {static_cast<time_t>(at), 0}};
    if (age > 0) {
      ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    }
  }
  // Names of those newly found whole, relative to the directory.
  std::vector<std::string> Names(const FinderNews& news) const {
    std::vector<std::string> names;
    for (const FoundCheckpoint& found : news.checkpoints) {
      names.push_back(found.path.substr(dir_.path().size() + 1));
    }
    return names;
  }
  std::vector<std::string> Find() {
    (void)finder_.Search({dir_.path()});
    return Names(finder_.Recheck());
  }

  const TempDirectory dir_;
  CheckpointFinder finder_;
};

TEST_F(FinderTest, KnowsWhatTensorFlowKerasAndTorchSave) {
  Write("tf/ckpt-5.index");
  Write("tf/ckpt-5.data-00000-of-00001");
  Write("latest.weights.h5");
  Write("model.keras");
  Write("old.h5");
  Write("a.pt");
  Write("b.pth");
  Write("c.ckpt");
  Write("d.safetensors");
  Write("saved/saved_model.pb");
  Write("saved/variables/variables.index");
  Write("saved/variables/variables.data-00000-of-00001");
  Write("checkpoint-500/pytorch_model.bin");
  EXPECT_THAT(Find(), UnorderedElementsAre("tf/ckpt-5", "latest.weights.h5", "model.keras",
                                           "old.h5", "a.pt", "b.pth", "c.ckpt", "d.safetensors",
                                           "saved", "checkpoint-500"));
}

TEST_F(FinderTest, OtherThingsAreNone) {
  Write("words.index");                 // no data beside it
  Write("ckpt-1.data-00000-of-00001");  // its index comes last
  Write("checkpoint-x/model.bin");
  Write("checkpoint-7/notes.txt");
  Write("checkpoint");
  Write("train.py");
  Write("empty.pt", "");
  Write(".hidden/a.pt");
  Write("venv/lib/a.pt");
  Write("lib/site-packages/pkg/weights.h5");
  Write("__pycache__/a.pt");
  Write("backup/workertemp_1/ckpt-1.index");
  Write("backup/workertemp_1/ckpt-1.data-00000-of-00001");
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(FinderTest, WhatIsOlderThanTheJobIsNotItsOwn) {
  Write("pretrained.h5", "bytes", 3600);
  Write("ckpt-1.index", "bytes", 3600);
  Write("ckpt-1.data-00000-of-00001", "bytes", 3600);
  EXPECT_THAT(Find(), IsEmpty());
  EXPECT_FALSE(finder_.pending());
}

TEST_F(FinderTest, OneThatStillGrowsIsNotWhole) {
  Write("a.pt", "1");
  EXPECT_THAT(Names(finder_.Search({dir_.path()})), IsEmpty()) << "seen once";
  Write("a.pt", "12");
  EXPECT_THAT(Names(finder_.Recheck()), IsEmpty());
  EXPECT_TRUE(finder_.pending());
  EXPECT_THAT(Names(finder_.Recheck()), ElementsAre("a.pt"));
  EXPECT_FALSE(finder_.pending());
}

TEST_F(FinderTest, OneThatIsSavedAgainBetweenAnyTwoLooksIsFound) {
  Write("model.pt", "state", 6);
  EXPECT_THAT(Names(finder_.Search({dir_.path()})), IsEmpty());
  Write("model.pt", "again", 3);
  EXPECT_THAT(Names(finder_.Recheck()), ElementsAre("model.pt"));
}

TEST_F(FinderTest, ARootMayBeAFile) {
  Write("mine.pt");
  Write("anothers.pt");
  (void)finder_.Search({dir_.File("mine.pt"), dir_.File("to_come.pt")});
  EXPECT_THAT(Names(finder_.Recheck()), ElementsAre("mine.pt"));
}

TEST_F(FinderTest, OneThatVanishesIsForgotten) {
  Write("a.pt");
  (void)finder_.Search({dir_.path()});
  ASSERT_TRUE(RealFileSystem().Remove(dir_.File("a.pt")).ok());
  EXPECT_THAT(Names(finder_.Recheck()), IsEmpty());
  EXPECT_FALSE(finder_.pending());
}

TEST_F(FinderTest, EachStateIsToldOnce) {
  Write("latest.weights.h5", "one");
  EXPECT_THAT(Find(), ElementsAre("latest.weights.h5"));
  EXPECT_THAT(Find(), IsEmpty());
  Write("latest.weights.h5", "three");
  EXPECT_THAT(Find(), ElementsAre("latest.weights.h5")) << "written again";
}

TEST_F(FinderTest, TheNewestComesFirst) {
  Write("a.pt", "bytes", 5);
  Write("b.pt", "bytes", 2);
  Write("c.pt", "bytes", 8);
  Find();
  std::vector<std::string> names;
  for (const auto& found : finder_.Known()) names.push_back(found.path);
  EXPECT_THAT(names, ElementsAre(dir_.File("b.pt"), dir_.File("a.pt"), dir_.File("c.pt")));
}

TEST_F(FinderTest, EventFilesAndCheckpointsThatGrowAreToldEachTime) {
  Write("logs/train/events.out.tfevents.1.host", "1");
  EXPECT_EQ(finder_.Search({dir_.path()}).grown.size(), 1u);
  EXPECT_EQ(finder_.Search({dir_.path()}).grown.size(), 0u);
  Write("logs/train/events.out.tfevents.1.host", "12");
  Write("a.pt");
  EXPECT_EQ(finder_.Search({dir_.path()}).grown.size(), 2u);
}

TEST_F(FinderTest, ForbiddenDirectoriesAreNotEntered) {
  auto options = Options();
  options.never = {dir_.File("job/checkpoints")};
  finder_.~CheckpointFinder();
  new (&finder_) CheckpointFinder(options);
  Write("job/checkpoints/step-1.pt");
  Write("job/checkpoints2/a.pt");
  EXPECT_THAT(Find(), ElementsAre("job/checkpoints2/a.pt"));
}

TEST_F(FinderTest, DepthEntriesAndCrowdsAreBounded) {
  Write("1/2/3/4/a.pt");
  Write("1/2/3/4/5/b.pt");
  EXPECT_THAT(Find(), ElementsAre("1/2/3/4/a.pt"));
  for (int i = 0; i < 1001; ++i) Write("crowd/x" + std::to_string(i), "");
  Write("crowd/deep/c.pt");
  Write("crowd/d.pt");
  EXPECT_THAT(Find(), ElementsAre("crowd/d.pt"));
  auto options = Options();
  options.entries = 5;
  CheckpointFinder hasty(options);
  for (int i = 0; i < 20; ++i) Write("many/" + std::to_string(i) + ".pt");
  (void)hasty.Search({dir_.File("many")});
  EXPECT_EQ(hasty.Recheck().checkpoints.size(), 4u) << "and the directory itself";
}

TEST_F(FinderTest, CrowdsOfPlainFilesCostNoEntries) {
  auto options = Options();
  options.entries = 50;
  CheckpointFinder finder(options);
  for (int i = 0; i < 300; ++i) Write("data/" + std::to_string(i) + ".jpg");
  Write("out/a/b/m.pt");
  (void)finder.Search({dir_.path()});
  EXPECT_THAT(Names(finder.Recheck()), ElementsAre("out/a/b/m.pt"));
}

TEST_F(FinderTest, NeitherALinkNorARootUsesUpTheSearch) {
  auto options = Options();
  options.entries = 80;
  CheckpointFinder finder(options);
  const TempDirectory wide;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(RealFileSystem().CreateDirectories(wide.File(std::to_string(i))).ok());
  }
  ASSERT_TRUE(RealFileSystem().CreateDirectories(dir_.File("data")).ok());
  ASSERT_EQ(symlink(wide.path().c_str(), dir_.File("data/all").c_str()), 0);
  ASSERT_EQ(symlink(wide.path().c_str(), dir_.File("another").c_str()), 0);
  Write("out/a/b/m.pt");
  (void)finder.Search({wide.path(), dir_.path()});
  EXPECT_THAT(Names(finder.Recheck()), ElementsAre("out/a/b/m.pt"));
}

TEST_F(FinderTest, WhatIsSavedBehindALinkIsFound) {
  const TempDirectory elsewhere;
  ASSERT_EQ(symlink(elsewhere.path().c_str(), dir_.File("ckpts").c_str()), 0);
  Write("ckpts/m.pt");
  EXPECT_THAT(Find(), ElementsAre("ckpts/m.pt"));
}

TEST_F(FinderTest, ARootInsideAnotherIsSearchedToItsOwnDepth) {
  Write("1/2/3/4/5/6/b.pt");
  (void)finder_.Search({dir_.path(), dir_.File("1/2")});
  EXPECT_THAT(Names(finder_.Recheck()), ElementsAre("1/2/3/4/5/6/b.pt"));
}

TEST_F(FinderTest, ALoopOfLinksEnds) {
  Write("a.pt");
  ASSERT_EQ(symlink(dir_.path().c_str(), dir_.File("self").c_str()), 0);
  EXPECT_FALSE(Find().empty());
}

TEST(SearchRootsTest, AreWrittenFilesThenArgumentsThenTheWorkingDirectory) {
  const TempDirectory dir;
  FileSystem& fs = RealFileSystem();
  for (const char* name : {"here/out", "named", "equals"}) {
    ASSERT_TRUE(fs.CreateDirectories(dir.File(name)).ok());
  }
  ProgramFacts facts;
  facts.working_directory = dir.File("here");
  facts.arguments = {"python",    "train.py",        "--dir=" + dir.File("equals"),
                     "out",       dir.File("named"), "--missing=" + dir.File("missing"),
                     "--verbose", "../here/./out",   "/",
                     "/etc",      "--save=new.pt",   "nowhere/new.pt"};
  facts.files = {{"/dev/null", true},
                 {"/data/set/part", false},
                 {"/srv/run/state.bin", true},
                 {"/srv/logs/out.log", true},
                 {"/srv/code/x.py", true},
                 {"/tmp/scratch", true},
                 {"/srv/board/train/events.out.tfevents.1", true}};
  EXPECT_THAT(SearchRoots(facts, fs),
              ElementsAre("/srv/run", "/srv/board/train", "/srv/board", dir.File("equals"),
                          dir.File("here/out"), dir.File("named"), dir.File("here/new.pt"),
                          dir.File("here")));
}

TEST(SearchRootsTest, TheRootOfAllIsNoPlaceToSearch) {
  ProgramFacts facts;
  facts.working_directory = "/";
  facts.arguments = {"program", "usr", "x"};
  EXPECT_THAT(SearchRoots(facts, RealFileSystem()), IsEmpty());
  EXPECT_THAT(SearchRoots({}, RealFileSystem()), IsEmpty()) << "nothing is known";
}

TEST(SearchRootsTest, PathsAreMadePlain) {
  EXPECT_EQ(PlainPath("/a//b/./c/../d/"), "/a/b/d");
  EXPECT_EQ(PlainPath("/../.."), "/");
  EXPECT_TRUE(LiesIn("/a/b", "/a"));
  EXPECT_TRUE(LiesIn("/a", "/a/"));
  EXPECT_TRUE(LiesIn("/a", "/"));
  EXPECT_FALSE(LiesIn("/ab", "/a"));
  EXPECT_EQ(DirectoryOf("/a/b"), "/a");
  EXPECT_EQ(DirectoryOf("/a"), "/");
}

}  // namespace
}  // namespace everstep
