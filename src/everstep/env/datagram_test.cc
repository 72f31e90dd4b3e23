// env: datagrams.
#include "everstep/env/datagram.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "everstep/env/environment.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

class DatagramTest : public ::testing::Test {
 protected:
  DatagramTest()
      : owner_(RuntimeDirectory::Make().value()),
        directory_(owner_->path()),
        path_(directory_ + "/1") {}

  std::string Receive(int socket, size_t room = 600) {
    std::string text(room, '\0');
    const auto n = ReceiveDatagram(socket, absl::MakeSpan(text.data(), text.size()));
    if (!n.has_value()) return "nothing";
    text.resize(std::min(*n, room));
    return text;
  }

  std::unique_ptr<RuntimeDirectory> owner_;
  const std::string directory_, path_;
};

TEST_F(DatagramTest, OnlyThisUserEntersTheDirectory) {
  struct stat info {};
  ASSERT_EQ(stat(directory_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(DatagramTest, WhatIsSentArrivesInOrderOneByOne) {
  const UniqueFd socket = BindDatagram(path_).value();
  DatagramSender sender(path_);
  EXPECT_TRUE(sender.Send("one"));
  EXPECT_TRUE(sender.Send(""));
  EXPECT_TRUE(sender.Send("three"));
  EXPECT_EQ(Receive(socket.get()), "one");
  EXPECT_EQ(Receive(socket.get()), "");
  EXPECT_EQ(Receive(socket.get()), "three");
  EXPECT_EQ(Receive(socket.get()), "nothing");
}

TEST_F(DatagramTest, OneThatIsTooLongSaysSo) {
  const UniqueFd socket = BindDatagram(path_).value();
  ASSERT_TRUE(DatagramSender(path_).Send(std::string(1000, 'x')));
  char buffer[100];
  EXPECT_EQ(ReceiveDatagram(socket.get(), absl::MakeSpan(buffer)), 1000u);
}

TEST_F(DatagramTest, SendingNeverWaits) {
  DatagramSender sender(path_);
  EXPECT_FALSE(sender.Send("nobody"));
  const UniqueFd socket = BindDatagram(path_).value();
  int sent = 0;
  while (sender.Send("full soon") && sent < 100000) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 100000);
}

TEST_F(DatagramTest, APathTooLongForASocketIsAnError) {
  EXPECT_EQ(BindDatagram("/tmp/" + std::string(120, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// With another TMPDIR.
std::unique_ptr<RuntimeDirectory> MakeIn(const std::string& directory) {
  const auto before = GetEnvironment("TMPDIR");
  SetEnvironment("TMPDIR", directory);
  auto made = RuntimeDirectory::Make().value();
  before.has_value() ? SetEnvironment("TMPDIR", *before) : UnsetEnvironment("TMPDIR");
  return made;
}

TEST_F(DatagramTest, ATemporaryDirectoryWithALongNameIsNotUsed) {
  const std::string deep = directory_ + "/" + std::string(80, 'd');
  ASSERT_TRUE(RealFileSystem().CreateDirectories(deep).ok());
  const auto near = MakeIn(directory_), far = MakeIn(deep);
  EXPECT_EQ(near->path().substr(0, directory_.size()), directory_);
  EXPECT_EQ(far->path().substr(0, 18), "/tmp/everstep-run-");
  EXPECT_TRUE(BindDatagram(far->path() + "/1234567890123456").ok());
}

TEST_F(DatagramTest, TheDirectoryGoesAwayWithItsObject) {
  ASSERT_TRUE(BindDatagram(path_).ok());
  owner_.reset();
  EXPECT_FALSE(RealFileSystem().Exists(directory_));
}

TEST_F(DatagramTest, WhatAKilledProcessLeftIsRemovedAndWhatIsLivedInIsNot) {
  const std::string left = directory_ + "/everstep-run-left",
                    young = directory_ + "/everstep-run-y", other = directory_ + "/other";
  for (const std::string& path : {left, young, other}) {
    ASSERT_TRUE(RealFileSystem().CreateDirectories(path + "/python").ok());
  }
  const auto inhabited = MakeIn(directory_);
  for (const std::string& path : {left, inhabited->path(), other}) {
    const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  const auto next = MakeIn(directory_);
  EXPECT_FALSE(RealFileSystem().Exists(left));
  EXPECT_TRUE(RealFileSystem().Exists(young));
  EXPECT_TRUE(RealFileSystem().Exists(other));
  EXPECT_TRUE(RealFileSystem().Exists(inhabited->path()));
}

}  // namespace
}  // namespace everstep
