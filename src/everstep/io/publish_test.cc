// io: a published file is there whole or not at all.
#include "everstep/io/publish.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

TEST(Publish, ReplacesTheOldFileAtOnceAndLeavesNothingElse) {
  TempDirectory dir;
  FileSystem& fs = RealFileSystem();
  ASSERT_TRUE(PublishFile(fs, dir.File("a"), "old").ok());
  auto file = AtomicFile::Open(fs, dir.File("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->file().Append(std::string_view("new")).ok());
  EXPECT_EQ(ReadWholeFile(fs, dir.File("a")).value(), "old");
  ASSERT_TRUE((*file)->Publish().ok());
  EXPECT_EQ(ReadWholeFile(fs, dir.File("a")).value(), "new");
  file->reset();
  EXPECT_EQ(fs.List(dir.path()).value(), std::vector<std::string>{"a"});
}

TEST(Publish, WithoutPublishNothingStays) {
  TempDirectory dir;
  FileSystem& fs = RealFileSystem();
  {
    auto file = AtomicFile::Open(fs, dir.File("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->file().Append(std::string_view("half")).ok());
  }
  EXPECT_TRUE(fs.List(dir.path()).value().empty());
}

TEST(Publish, AMissingDirectoryIsNamed) {
  TempDirectory dir;
  const absl::Status status = PublishFile(RealFileSystem(), dir.File("no/a"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find(dir.File("no")), absl::string_view::npos);
}

TEST(Publish, ADeviceOrPipeIsNeverReplacedByAFile) {
  TempDirectory dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  const absl::Status status = PublishFile(RealFileSystem(), dir.File("pipe"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RealFileSystem().List(dir.path()).value(), std::vector<std::string>{"pipe"});
}

TEST(Publish, PathsSplitAtTheLastSlash) {
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf("c"), ".");
  EXPECT_EQ(DirectoryOf("/c"), "/");
  EXPECT_EQ(BaseName("a/b/c"), "c");
  EXPECT_EQ(BaseName("c"), "c");
}

}  // namespace
}  // namespace everstep
