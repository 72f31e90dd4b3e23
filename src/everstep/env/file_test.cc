// env: the contract of FileSystem, on the real one.
#include "everstep/env/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>

#include "everstep/env/memory_file_system.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

// The contract, on the real file system and on the one in memory.
class FileTest : public ::testing::TestWithParam<bool> {
 protected:
  FileTest() : fs_(GetParam() ? RealFileSystem() : memory_) {
    EXPECT_TRUE(fs_.CreateDirectories(dir_.path()).ok());
  }
  std::string Path(std::string_view name) const { return dir_.File(name); }
  absl::Status Write(const std::string& path, std::string_view text,
                     FileSystem::Create create = FileSystem::Create::kTruncate) {
    auto file = fs_.OpenForWriting(path, create);
    if (!file.ok()) return file.status();
    absl::Status status = (*file)->Append(text);
    if (status.ok()) status = (*file)->Sync();
    if (status.ok()) status = (*file)->Close();
    return status;
  }

  MemoryFileSystem memory_;
  FileSystem& fs_;
  TempDirectory dir_;
};
INSTANTIATE_TEST_SUITE_P(FileSystems, FileTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Real" : "Memory"; });

class RealFileTest : public FileTest {};
INSTANTIATE_TEST_SUITE_P(FileSystems, RealFileTest, ::testing::Values(true));

TEST_P(FileTest, WhatIsWrittenIsRead) {
  ASSERT_TRUE(Write(Path("a"), "hello").ok());
  EXPECT_EQ(ReadWholeFile(fs_, Path("a")).value(), "hello");
  ASSERT_TRUE(Write(Path("empty"), "").ok());
  EXPECT_EQ(ReadWholeFile(fs_, Path("empty")).value(), "");
}

TEST_P(FileTest, TruncateReplacesAppendAddsExclusiveRefuses) {
  ASSERT_TRUE(Write(Path("a"), "first").ok());
  ASSERT_TRUE(Write(Path("a"), "2nd").ok());
  ASSERT_TRUE(Write(Path("a"), "+3", FileSystem::Create::kAppend).ok());
  EXPECT_EQ(Write(Path("a"), "no", FileSystem::Create::kExclusive).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadWholeFile(fs_, Path("a")).value(), "2nd+3");
  EXPECT_TRUE(Write(Path("b"), "yes", FileSystem::Create::kExclusive).ok());
}

TEST_P(RealFileTest, TheModeOfANewFileIsTheOneAsked) {
  ASSERT_TRUE(fs_.OpenForWriting(Path("secret"), FileSystem::Create::kExclusive, 0600).ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_P(FileTest, ReadingPastTheEndIsDataLossThatSaysWhere) {
  ASSERT_TRUE(Write(Path("a"), "0123456789").ok());
  auto file = fs_.OpenForReading(Path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 10);
  std::byte bytes[4];
  ASSERT_TRUE((*file)->ReadAt(6, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(static_cast<char>(bytes[0]), '6');
  const absl::Status status = (*file)->ReadAt(8, absl::MakeSpan(bytes));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), Path("a") + " ends at byte 10, 2 bytes short");
}

TEST_P(FileTest, ErrorsNameThePathAndTheReason) {
  const absl::Status missing = fs_.OpenForReading(Path("none")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "cannot open " + Path("none") + ": No such file or directory");
  const absl::Status directory = fs_.OpenForReading(dir_.path()).status();
  EXPECT_EQ(directory.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(directory.message(), ::testing::HasSubstr("it is a directory"));
  EXPECT_EQ(fs_.List(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs_.Rename(Path("none"), Path("x")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs_.Remove(Path("none")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs_.SyncDirectory(Path("none")).code(), absl::StatusCode::kNotFound);
}

TEST_P(RealFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("pipe"), std::string("/dev/zero")}) {
    const absl::Status status = fs_.OpenForReading(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("not a file but a pipe, socket or device"));
  }
  ASSERT_EQ(symlink("loop", Path("loop").c_str()), 0);
  EXPECT_EQ(fs_.OpenForReading(Path("loop")).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(RealFileTest, AFullDiskIsResourceExhausted) {
  ASSERT_EQ(access("/dev/full", W_OK), 0) << "every Linux has it";
  const absl::Status status = Write("/dev/full", "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cannot write /dev/full: No space left on device");
}

TEST_P(FileTest, DirectoriesAreMadeWithParentsListedSortedAndRemovedWhole) {
  ASSERT_TRUE(fs_.CreateDirectories(Path("x/y/z")).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Path("x/y/z/")).ok());
  EXPECT_TRUE(fs_.IsDirectory(Path("x/y/z")));
  ASSERT_TRUE(Write(Path("x/b"), "").ok());
  ASSERT_TRUE(Write(Path("x/a"), "").ok());
  EXPECT_FALSE(fs_.IsDirectory(Path("x/a")));
  EXPECT_EQ(fs_.List(Path("x")).value(), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_TRUE(fs_.SyncDirectory(Path("x")).ok());
  EXPECT_EQ(fs_.Remove(Path("x")).code(), absl::StatusCode::kAlreadyExists);  // not empty
  EXPECT_EQ(fs_.CreateDirectories(Path("x/a/b")).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(fs_.RemoveTree(Path("x")).ok());
  EXPECT_FALSE(fs_.Exists(Path("x")));
  EXPECT_TRUE(fs_.RemoveTree(Path("x")).ok());
}

TEST_P(RealFileTest, RemovingATreeLeavesWhatALinkPointsTo) {
  ASSERT_TRUE(fs_.CreateDirectories(Path("kept")).ok());
  ASSERT_TRUE(Write(Path("kept/file"), "x").ok());
  ASSERT_TRUE(fs_.CreateDirectories(Path("tree")).ok());
  ASSERT_EQ(symlink(Path("kept").c_str(), Path("tree/link").c_str()), 0);
  ASSERT_TRUE(fs_.RemoveTree(Path("tree")).ok());
  EXPECT_TRUE(fs_.Exists(Path("kept/file")));
}

TEST_P(FileTest, RenameReplacesAFileAndRefusesAFullDirectory) {
  ASSERT_TRUE(Write(Path("a"), "new").ok());
  ASSERT_TRUE(Write(Path("b"), "old").ok());
  ASSERT_TRUE(fs_.Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(ReadWholeFile(fs_, Path("b")).value(), "new");
  EXPECT_FALSE(fs_.Exists(Path("a")));
  ASSERT_TRUE(fs_.CreateDirectories(Path("d")).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Path("e/full")).ok());
  EXPECT_EQ(fs_.Rename(Path("d"), Path("e")).code(), absl::StatusCode::kAlreadyExists);
}

TEST_P(FileTest, LinkIsExclusive) {
  ASSERT_TRUE(Write(Path("a"), "one").ok());
  ASSERT_TRUE(fs_.Link(Path("a"), Path("b")).ok());
  EXPECT_EQ(fs_.Link(Path("a"), Path("b")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadWholeFile(fs_, Path("b")).value(), "one");
}

TEST(MemoryFileSystem, ACrashTakesWhatWasNotSyncedBytesAndNamesAlike) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/d").ok());
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  auto file = fs.OpenForWriting("/d/a", FileSystem::Create::kTruncate, 0644);
  ASSERT_TRUE((*file)->Append("synced").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE(fs.SyncDirectory("/d").ok());
  ASSERT_TRUE((*file)->Append("+lost").ok());
  auto nameless = fs.OpenForWriting("/d/b", FileSystem::Create::kTruncate, 0644);
  ASSERT_TRUE((*nameless)->Append("synced").ok());
  ASSERT_TRUE((*nameless)->Sync().ok());
  ASSERT_TRUE(fs.Rename("/d/a", "/d/c").ok());
  EXPECT_EQ(ReadWholeFile(fs, "/d/c").value(), "synced+lost");
  fs.Crash();
  EXPECT_EQ(fs.List("/d").value(), std::vector<std::string>{"a"});
  EXPECT_EQ(ReadWholeFile(fs, "/d/a").value(), "synced");
}

TEST(MemoryFileSystem, AnyPartOfWhatWasNotSyncedMaySurviveACrashAndAllThatWas) {
  std::set<std::string> contents, names;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MemoryFileSystem fs;
    ASSERT_TRUE(fs.CreateDirectories("/d").ok());
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    for (const char* path : {"/d/a", "/d/b", "/d/c"}) {
      auto file = fs.OpenForWriting(path, FileSystem::Create::kTruncate, 0644);
      ASSERT_TRUE((*file)->Append("synced").ok());
      ASSERT_TRUE((*file)->Sync().ok());
      ASSERT_TRUE(fs.SyncDirectory("/d").ok());
      ASSERT_TRUE((*file)->Append("+not").ok());
    }
    ASSERT_TRUE(fs.Rename("/d/b", "/d/renamed").ok());
    ASSERT_TRUE(fs.Remove("/d/c").ok());
    fs.CrashKeepingSome(seed);
    const std::string a = ReadWholeFile(fs, "/d/a").value();
    EXPECT_EQ(a.substr(0, 6), "synced");
    contents.insert(a);
    ASSERT_NE(fs.Exists("/d/b"), fs.Exists("/d/renamed"));
    std::string all;
    const auto left = fs.List("/d");
    for (const std::string& name : *left) all += name + " ";
    names.insert(all);
    fs.Crash();  // what is there after a crash stays
    EXPECT_EQ(ReadWholeFile(fs, "/d/a").value(), a);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a b ", "a b c ", "a c renamed ", "a renamed "}));
  for (const std::string& wanted :
       {std::string("synced"), std::string("synced+no"), std::string("synced+not"),
        std::string("synced\0\0\0\0", 10), std::string("synced+\0\0t", 10)}) {
    EXPECT_EQ(contents.count(wanted), 1u) << wanted;
  }
}

TEST(MemoryFileSystem, ATreeIsRemovedPieceByPiece) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/d/e/f").ok());
  fs.FailAfter(1);
  EXPECT_EQ(fs.RemoveTree("/d").code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fs.IsDirectory("/d/e"));
  EXPECT_FALSE(fs.Exists("/d/e/f"));
}

TEST(MemoryFileSystem, FailsWhenToldTo) {
  MemoryFileSystem fs;
  fs.FailAfter(2);
  EXPECT_TRUE(fs.CreateDirectories("/a/b").ok());
  EXPECT_EQ(fs.SyncDirectory("/a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fs.changes(), 2);
}

TEST(Paths, JoinWithOneSlashWhateverIsThere) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "/b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
}

TEST(Paths, AbsoluteStartsAtTheWorkingDirectory) {
  char cwd[4096];
  ASSERT_NE(getcwd(cwd, sizeof cwd), nullptr);
  EXPECT_EQ(AbsolutePath("/x/y"), "/x/y");
  EXPECT_EQ(AbsolutePath("x"), std::string(cwd) + "/x");
  EXPECT_EQ(AbsolutePath("."), cwd);
}

}  // namespace
}  // namespace everstep
