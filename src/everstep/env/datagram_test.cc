// env: datagrams.
#include "everstep/env/datagram.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "everstep/env/environment.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

class DatagramTest : public ::testing::Test {
 protected:
  DatagramTest() : directory_(MakeRuntimeDirectory().value()), path_(directory_ + "/1") {}
  ~DatagramTest() override { (void)RealFileSystem().RemoveTree(directory_); }

  std::string Receive(int socket, size_t room = 600) {
    std::string text(room, '\0');
    const auto n = ReceiveDatagram(socket, absl::MakeSpan(text.data(), text.size()));
    if (!n.has_value()) return "nothing";
    text.resize(std::min(*n, room));
    return text;
  }

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

TEST_F(DatagramTest, ATemporaryDirectoryWithALongNameIsNotUsed) {
  const auto before = GetEnvironment("TMPDIR");
  const std::string deep = directory_ + "/" + std::string(80, 'd');
  ASSERT_TRUE(RealFileSystem().CreateDirectories(deep).ok());
  SetEnvironment("TMPDIR", directory_);
  const std::string near = MakeRuntimeDirectory().value();
  SetEnvironment("TMPDIR", deep);
  const std::string far = MakeRuntimeDirectory().value();
  before.has_value() ? SetEnvironment("TMPDIR", *before) : UnsetEnvironment("TMPDIR");
  EXPECT_EQ(near.substr(0, directory_.size()), directory_);
  EXPECT_EQ(far.substr(0, 18), "/tmp/everstep-run-");
  EXPECT_TRUE(BindDatagram(far + "/1234567890123456").ok());
  (void)RealFileSystem().RemoveTree(far);
}

}  // namespace
}  // namespace everstep
