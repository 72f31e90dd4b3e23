// observe: rules of progress.
#include "everstep/observe/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace everstep {
namespace {

using ::testing::HasSubstr;

Scalars Half() {
  Scalars s;
  s.total_steps = 1200;
  s.epoch = 1;
  s.epochs = 5;
  s.step_in_epoch = 120;
  s.steps_per_epoch = 240;
  s.examples_per_second = 41200;
  s.values = {{"loss", 0.29123}};
  return s;
}

TEST(ProgressBar, ShowsEpochPositionSpeedAndValues) {
  EXPECT_EQ(ProgressBar(Half(), 4, 100),
            "epoch 2/5 [===============>              ] 120/240  41,200 examples/s  loss 0.2912  4 "
            "workers");
}

TEST(ProgressBar, NeverIsWiderThanTheTerminal) {
  for (int width = 1; width < 120; ++width) {
    EXPECT_LE(ProgressBar(Half(), 4, width).size(), static_cast<size_t>(width));
  }
}

TEST(ProgressRenderer, OnATerminalDrawsOneLineAtMostTenTimesASecond) {
  ProgressRenderer renderer(true, 80);
  TimePoint now{};
  const std::string first = renderer.Update(now, Half(), 4);
  EXPECT_EQ(first.front(), '\r');
  EXPECT_EQ(first.find('\n'), std::string::npos);
  EXPECT_EQ(renderer.Update(now + std::chrono::milliseconds(50), Half(), 4), "");
  EXPECT_NE(renderer.Update(now + std::chrono::milliseconds(150), Half(), 4), "");
}

TEST(ProgressRenderer, MakesRoomForOtherLines) {
  ProgressRenderer renderer(true, 80);
  EXPECT_EQ(renderer.Clear(), "");
  renderer.Update(TimePoint{}, Half(), 4);
  EXPECT_EQ(renderer.Clear(), "\r\033[K");
  EXPECT_EQ(renderer.Clear(), "");
  EXPECT_THAT(renderer.Redraw(), HasSubstr("epoch 2/5"));
}

TEST(ProgressRenderer, PlainLinesComeEveryTenSecondsAndHaveNoControlCharacters) {
  ProgressRenderer renderer(false, 80);
  TimePoint now{};
  EXPECT_EQ(renderer.Update(now, Half(), 4), "");
  EXPECT_EQ(renderer.Update(now + std::chrono::seconds(9), Half(), 4), "");
  EXPECT_EQ(renderer.Update(now + std::chrono::seconds(11), Half(), 4),
            "step 360/1200, epoch 2/5, 41200 examples/s, loss 0.2912\n");
  EXPECT_EQ(renderer.Clear(), "");
}

}  // namespace
}  // namespace everstep
