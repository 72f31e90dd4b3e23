// supervise: heartbeats.
#include "everstep/supervise/heartbeat_socket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "everstep/base/keyed_random.h"
#include "everstep/env/clock.h"
#include "everstep/env/datagram.h"
#include "everstep/env/file.h"
#include "everstep/env/temp_directory.h"
#include "everstep/supervise/heartbeat_module.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(HeartbeatTest, OfTheProtocolsExample) {
  const auto beat = ParseHeartbeat("everstep1 step=120 phase=train expect=600 loss=0.31 epoch=2");
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->step, 120);
  EXPECT_EQ(beat->phase, "train");
  EXPECT_EQ(beat->expect, seconds(600));
}

TEST(HeartbeatTest, AllKeysAreOptional) {
  const auto beat = ParseHeartbeat("everstep1");
  ASSERT_TRUE(beat.has_value());
  EXPECT_FALSE(beat->step.has_value());
  EXPECT_FALSE(beat->expect.has_value());
  EXPECT_EQ(beat->phase, "");
}

TEST(HeartbeatTest, WhatElseIsSaidIsPassedOver) {
  EXPECT_TRUE(ParseHeartbeat("everstep1 a=b=c d= step=1\n").has_value());
  EXPECT_EQ(ParseHeartbeat("everstep1 step=1 step=2")->step, 2) << "the last counts";
  EXPECT_EQ(ParseHeartbeat("everstep1 expect=0.0005")->expect, milliseconds(1));
  EXPECT_EQ(ParseHeartbeat("everstep1 expect=0")->expect, Duration::zero());
  EXPECT_EQ(ParseHeartbeat("everstep1 expect=1e300")->expect, std::chrono::hours(720));
  EXPECT_EQ(ParseHeartbeat("everstep1 phase=" + std::string(200, 'p'))->phase.size(), 64u);
}

TEST(HeartbeatTest, GarbageIsNoHeartbeat) {
  for (const char* text : {"",
                           "\n",
                           "everstep",
                           "everstep2 step=1",
                           "everstep1step=1",
                           " everstep1",
                           "everstep1 ",
                           "everstep1  step=1",
                           "everstep1 step",
                           "everstep1 =1",
                           "everstep1 step=",
                           "everstep1 step=-1",
                           "everstep1 step=1.5",
                           "everstep1 step=99999999999999999999",
                           "everstep1 expect=-1",
                           "everstep1 expect=nan",
                           "everstep1 expect=-inf",
                           "everstep1 expect=x",
                           "everstep1 phase=\x1b[31m",
                           "everstep1 phase=\xc3\xa4",
                           "everstep1 step=1\n\n"}) {
    EXPECT_FALSE(ParseHeartbeat(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseHeartbeat(std::string("everstep1 a=\0", 13)).has_value());
  EXPECT_FALSE(ParseHeartbeat("everstep1 a=" + std::string(501, 'x')).has_value()) << "513 bytes";
  EXPECT_TRUE(ParseHeartbeat("everstep1 a=" + std::string(500, 'x')).has_value());
}

// Bytes drawn among those that the parser knows, so that some of it gets far.
TEST(HeartbeatTest, AMillionRandomDatagramsDoNoHarm) {
  const std::string words[] = {"everstep1",  " ",  "step=", "phase=", "expect=", "1",
                               "9999999999", "-",  "=",     ".5",     "e+99",    "inf",
                               "x",          "\n", "  ",    "\xff"};
  int64_t good = 0;
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    uint64_t bits = RandomAt(7, 20 * i);
    std::string text = bits % 4 == 0 ? "" : "everstep1";
    bits /= 4;
    for (int n = static_cast<int>(bits % 12); n > 0; --n) {
      bits = bits / 16;
      const uint64_t which = (bits ^ RandomAt(7, 20 * i + static_cast<uint64_t>(n))) % 17;
      text += which == 16 ? std::string(1, static_cast<char>(bits)) : words[which];
    }
    if (const auto beat = ParseHeartbeat(text)) {
      ++good;
      ASSERT_LE(beat->phase.size(), 64u);
      ASSERT_GE(beat->step.value_or(0), 0);
      ASSERT_GE(beat->expect.value_or(Duration::zero()), Duration::zero());
      ASSERT_LE(beat->expect.value_or(Duration::zero()), std::chrono::hours(720));
    }
  }
  EXPECT_GT(good, 1000);
  EXPECT_LT(good, 900'000);
}

TEST(HeartbeatSocketTest, TakesWhatWasSentAndCountsGarbage) {
  const TempDirectory dir;
  auto socket = HeartbeatSocket::Open(dir.File("1")).value();
  DatagramSender sender(socket->path());
  sender.Send("everstep1 step=1");
  sender.Send("rubbish");
  sender.Send("everstep1 step=2" + std::string(600, ' '));
  sender.Send("everstep1 step=3");
  std::vector<Step> steps;
  socket->Take([&](const Heartbeat& beat) { steps.push_back(*beat.step); });
  EXPECT_EQ(steps, (std::vector<Step>{1, 3}));
  EXPECT_EQ(socket->garbage(), 2);
}

TEST(HeartbeatSocketTest, LeavesNothingBehind) {
  const TempDirectory dir;
  auto socket = HeartbeatSocket::Open(dir.File("1")).value();
  EXPECT_TRUE(RealFileSystem().Exists(dir.File("1")));
  socket.reset();
  EXPECT_FALSE(RealFileSystem().Exists(dir.File("1")));
}

TEST(HeartbeatSocketTest, AFloodDoesNotHoldItsReaderUp) {
  const TempDirectory dir;
  auto socket = HeartbeatSocket::Open(dir.File("1")).value();
  std::atomic<bool> stop = false;
  std::thread flood([&] {
    DatagramSender sender(socket->path());
    while (!stop) sender.Send("everstep1 step=1");
  });
  int heard = 0;
  const TimePoint start = RealClock().Now();
  for (int i = 0; i < 100; ++i) {
    int at_once = 0;
    socket->Take([&](const Heartbeat&) { ++at_once; });
    EXPECT_LE(at_once, 64);
    heard += at_once;
  }
  EXPECT_LT(RealClock().Now() - start, seconds(5));
  stop = true;
  flood.join();
  EXPECT_LE(heard, 6400);
}

TEST(HeartbeatModuleTest, IsThePythonFileOfTheRepository) {
  EXPECT_NE(HeartbeatModule().find("EVERSTEP_HEARTBEAT"), std::string_view::npos);
  EXPECT_EQ(HeartbeatModule().back(), '\n');
}

}  // namespace
}  // namespace everstep
