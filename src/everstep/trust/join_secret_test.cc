// trust: rules of the join secret.
#include "everstep/trust/join_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <vector>

#include "everstep/base/exit_code.h"
#include "everstep/env/file.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JoinSecretTest : public ::testing::Test {
 protected:
  void SetUp() override { variables["HOME"] = home.path(); }
  absl::StatusOr<JobSecret> Read() {
    return ReadJoinSecret([this](const std::string& name) -> std::optional<std::string> {
      auto it = variables.find(name);
      if (it == variables.end()) return std::nullopt;
      return it->second;
    });
  }
  std::string DefaultPath() { return home.File(".everstep/join-secret"); }
  int ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return static_cast<int>(info.st_mode & 07777);
  }
  // Refused with 78; the text names the file and what is wrong, in one line.
  void Refused(const std::string& path, const std::string& what, const std::string& cure) {
    const auto secret = Read();
    ASSERT_FALSE(secret.ok());
    const std::string text(secret.status().message());
    EXPECT_EQ(secret.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ExitCodeFor(secret.status()), kExitConfiguration);
    EXPECT_THAT(text, HasSubstr(path));
    EXPECT_THAT(text, HasSubstr(what));
    EXPECT_THAT(text, HasSubstr(cure));
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
  void WriteFile(const std::string& path, const std::string& text, int mode) {
    auto file = RealFileSystem().OpenForWriting(path, FileSystem::Create::kTruncate, 0600);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(text).ok());
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }

  TempDirectory home;
  std::map<std::string, std::string> variables;
};

TEST_F(JoinSecretTest, IsMadeAtFirstUseForItsUserAloneAndIsTheSameEverAfter) {
  const auto first = Read();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ModeOf(DefaultPath()), 0600);
  EXPECT_EQ(ModeOf(home.File(".everstep")), 0700);
  const auto second = Read();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(*first == *second);
  EXPECT_THAT(*RealFileSystem().List(home.File(".everstep")), ElementsAre("join-secret"));
}

TEST_F(JoinSecretTest, ThoseWhoMakeItAtOnceAllGetTheSame) {
  for (int round = 0; round < 20; ++round) {
    (void)RealFileSystem().RemoveTree(home.File(".everstep"));
    std::vector<std::optional<JobSecret>> got(8);
    std::vector<std::thread> threads;
    for (auto& slot : got) {
      threads.emplace_back([&] {
        auto secret = Read();
        if (secret.ok()) slot = *secret;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& secret : got) {
      ASSERT_TRUE(secret.has_value());
      EXPECT_TRUE(*secret == *got[0]);
    }
    EXPECT_THAT(*RealFileSystem().List(home.File(".everstep")), ElementsAre("join-secret"));
  }
}

TEST_F(JoinSecretTest, AnotherFileMayBeNamedAndIsNeverMade) {
  variables["EVERSTEP_JOIN_SECRET_FILE"] = home.File("other");
  Refused(home.File("other"), "there is no such file", "unset it");
  EXPECT_FALSE(RealFileSystem().Exists(home.File("other")));
  const JobSecret secret = JobSecret::Generate();
  WriteFile(home.File("other"), secret.ToHexForFile(), 0400);
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == secret);
  EXPECT_FALSE(RealFileSystem().Exists(home.File(".everstep")));
}

TEST_F(JoinSecretTest, AnEmptyVariableIsNone) {
  variables["EVERSTEP_JOIN_SECRET_FILE"] = "";
  EXPECT_TRUE(Read().ok());
  EXPECT_TRUE(RealFileSystem().Exists(DefaultPath()));
}

TEST_F(JoinSecretTest, WhatOthersCanReadOrWriteIsRefused) {
  ASSERT_TRUE(Read().ok());
  for (const int mode : {0640, 0604, 0644, 0620, 0602}) {
    ASSERT_EQ(chmod(DefaultPath().c_str(), mode), 0);
    Refused(DefaultPath(), "by others", "chmod 600 " + DefaultPath());
  }
  ASSERT_EQ(chmod(DefaultPath().c_str(), 0600), 0);
  EXPECT_TRUE(Read().ok());
}

TEST_F(JoinSecretTest, WhatIsAnotherUsersIsRefused) {
  if (geteuid() != 0) {
    // /etc/hostname or the like would do: somebody else's that this one can read.
    variables["EVERSTEP_JOIN_SECRET_FILE"] = "/etc/passwd";
    return Refused("/etc/passwd", "belongs to another user", "EVERSTEP_JOIN_SECRET_FILE");
  }
  ASSERT_TRUE(Read().ok());
  ASSERT_EQ(chown(DefaultPath().c_str(), 12345, 12345), 0);
  Refused(DefaultPath(), "belongs to another user", "EVERSTEP_JOIN_SECRET_FILE");
}

TEST_F(JoinSecretTest, WhatIsNoSecretIsRefusedAndNeverShown) {
  ASSERT_TRUE(Read().ok());
  const std::string almost(63, 'a');
  for (const std::string& text :
       {std::string(), almost, almost + "g\n", std::string(100000, '1')}) {
    WriteFile(DefaultPath(), text, 0600);
    Refused(DefaultPath(), "64 hex digits", "copy it again");
    if (!text.empty()) {
      EXPECT_EQ(std::string(Read().status().message()).find(text.substr(0, 20)), std::string::npos);
    }
  }
}

TEST_F(JoinSecretTest, APipeOrADirectoryInItsPlaceIsRefusedAtOnce) {
  ASSERT_EQ(mkdir(home.File(".everstep").c_str(), 0700), 0);
  ASSERT_EQ(mkfifo(DefaultPath().c_str(), 0600), 0);
  Refused(DefaultPath(), "is no file", "remove it");
  ASSERT_TRUE(RealFileSystem().Remove(DefaultPath()).ok());
  ASSERT_EQ(mkdir(DefaultPath().c_str(), 0700), 0);
  Refused(DefaultPath(), "is no file", "remove it");
}

TEST_F(JoinSecretTest, WithoutAPlaceForItThatIsTold) {
  variables.erase("HOME");
  Refused("HOME", "is not set", "EVERSTEP_JOIN_SECRET_FILE");
}

TEST_F(JoinSecretTest, AHomeThatCannotBeWrittenIsTold) {
  // Nobody can make a directory in these, root neither.
  for (const char* place : {"/proc", "/nowhere/at/all"}) {
    variables["HOME"] = place;
    Refused(std::string(place) + "/.everstep/join-secret", "cannot be made",
            "EVERSTEP_JOIN_SECRET_FILE");
  }
}

}  // namespace
}  // namespace everstep
