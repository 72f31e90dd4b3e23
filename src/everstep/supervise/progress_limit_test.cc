// supervise: learned limits.
#include "everstep/supervise/progress_limit.h"

#include <gtest/gtest.h>

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const TimePoint kStart{std::chrono::hours(1)};
TimePoint At(double s) { return kStart + milliseconds(static_cast<int64_t>(s * 1000)); }

Vitals Tell(const ProgressLimit& limit, double now) {
  Vitals vitals;
  limit.Tell(At(now), &vitals);
  return vitals;
}
Heartbeat Beat(Step step) { return {step, "train", std::nullopt}; }

TEST(ProgressLimitTest, SilenceCountsFromTheLatestSignOfAnyKind) {
  ProgressLimit limit({}, kStart);
  EXPECT_EQ(Tell(limit, 7).idle, seconds(7)) << "from the start, before any";
  limit.Saw(Sign::kOutput, At(10));
  limit.Saw(Sign::kCpu, At(12));
  EXPECT_EQ(Tell(limit, 20).idle, seconds(8));
  limit.Saw(Sign::kNetwork, At(21));
  limit.Saw(Sign::kFiles, At(22));
  EXPECT_EQ(Tell(limit, 22).idle, seconds(0));
}

TEST(ProgressLimitTest, TheLimitIsTheFloorUntilALongSilenceWasComeBackFrom) {
  ProgressLimit limit({}, kStart);
  EXPECT_EQ(Tell(limit, 0).idle_limit, seconds(60));
  limit.Saw(Sign::kOutput, At(19));
  EXPECT_EQ(Tell(limit, 19).idle_limit, seconds(60));
  limit.Saw(Sign::kOutput, At(59));
  EXPECT_EQ(Tell(limit, 59).idle_limit, seconds(120)) << "three times 40 s";
  limit.Saw(Sign::kCpu, At(60));
  EXPECT_EQ(Tell(limit, 150).idle_limit, seconds(120)) << "the present silence is not over";
}

TEST(ProgressLimitTest, ASignOfOneKindEndsTheSilenceOfAll) {
  ProgressLimit limit({}, kStart);
  for (int s = 1; s <= 300; ++s) limit.Saw(Sign::kCpu, At(s));
  limit.Saw(Sign::kOutput, At(301));
  EXPECT_EQ(Tell(limit, 301).idle_limit, seconds(60)) << "no silence, though 301 s of no output";
}

TEST(ProgressLimitTest, TimeBeingStoppedIsToldAndTeachesNothing) {
  ProgressLimit limit({}, kStart);
  limit.Saw(Sign::kCpu, At(1));
  EXPECT_EQ(Tell(limit, 1).stopped, Duration::zero());
  limit.SawStopped(true, false, At(2));
  EXPECT_GT(Tell(limit, 2).stopped, Duration::zero());
  limit.SawStopped(true, false, At(500));
  EXPECT_EQ(Tell(limit, 502).stopped, seconds(500));
  limit.SawStopped(false, false, At(600));
  EXPECT_EQ(Tell(limit, 601).stopped, Duration::zero());
  limit.Saw(Sign::kCpu, At(602));
  EXPECT_EQ(Tell(limit, 602).idle_limit, seconds(60));
  limit.Saw(Sign::kCpu, At(702));
  EXPECT_EQ(Tell(limit, 702).idle_limit, seconds(300)) << "it learns again";
}

TEST(ProgressLimitTest, WhatRanBetweenTwoStopsIsStoppedSinceTheLastOnly) {
  ProgressLimit limit({}, kStart);
  limit.SawStopped(true, false, At(1));
  limit.SawStopped(true, false, At(4));
  EXPECT_EQ(Tell(limit, 4).stopped, seconds(3));
  limit.SawStopped(true, true, At(5));
  EXPECT_EQ(Tell(limit, 7).stopped, seconds(2));
}

TEST(ProgressLimitTest, WithoutHeartbeatsNothingIsSaidOfThem) {
  ProgressLimit limit({}, kStart);
  EXPECT_FALSE(Tell(limit, 1000).beats);
  EXPECT_EQ(Tell(limit, 1000).step, -1);
}

TEST(ProgressLimitTest, TheFirstStepHasAQuarterOfAnHour) {
  ProgressLimit limit({}, kStart);
  limit.Heard(Beat(0), At(10));
  const Vitals vitals = Tell(limit, 70);
  EXPECT_TRUE(vitals.beats);
  EXPECT_EQ(vitals.beat_age, seconds(60));
  EXPECT_EQ(vitals.beat_limit, minutes(15));
  EXPECT_EQ(vitals.step, 0);
  EXPECT_EQ(vitals.phase, "train");
  limit.Heard(Beat(0), At(100));
  EXPECT_EQ(Tell(limit, 100).beat_limit, minutes(15)) << "alive, but no step further";
  limit.Heard(Beat(1), At(400));
  EXPECT_EQ(Tell(limit, 400).beat_limit, minutes(5)) << "what the first one took is no measure";
}

TEST(ProgressLimitTest, LaterTheLimitIsTenTimesTheLongestGapBetweenSteps) {
  ProgressLimit limit({}, kStart);
  limit.Heard(Beat(0), At(0));
  limit.Heard(Beat(1), At(100));
  limit.Heard(Beat(2), At(120));
  EXPECT_EQ(Tell(limit, 120).beat_limit, seconds(300));
  limit.Heard(Beat(2), At(150));  // in between
  limit.Heard(Beat(5), At(160));
  EXPECT_EQ(Tell(limit, 160).beat_limit, seconds(400));
  limit.Heard(Beat(6), At(161));
  EXPECT_EQ(Tell(limit, 161).beat_limit, seconds(400));
}

TEST(ProgressLimitTest, BeatsWithoutStepsAreMeasuredThemselves) {
  ProgressLimit limit({}, kStart);
  for (double s : {0.0, 10.0, 60.0}) limit.Heard({}, At(s));
  EXPECT_EQ(Tell(limit, 60).beat_limit, seconds(500));
  EXPECT_EQ(Tell(limit, 60).step, -1);
}

TEST(ProgressLimitTest, WhatTheProgramExpectsCountsUntilTheNextBeat) {
  ProgressLimit limit({}, kStart);
  for (int s = 0; s < 4; ++s) limit.Heard(Beat(s), At(s));
  limit.Heard({4, "save", seconds(600)}, At(4));
  EXPECT_EQ(Tell(limit, 5).beat_limit, seconds(600));
  limit.Heard({5, "", seconds(20)}, At(6));
  EXPECT_EQ(Tell(limit, 6).beat_limit, seconds(20)) << "also less than the floor";
  EXPECT_EQ(Tell(limit, 6).phase, "save") << "the last that it told";
  limit.Heard({6, "", milliseconds(10)}, At(7));
  EXPECT_EQ(Tell(limit, 7).beat_limit, seconds(5)) << "but no hair trigger";
  limit.Heard(Beat(7), At(8));
  EXPECT_EQ(Tell(limit, 8).beat_limit, seconds(300));
}

TEST(ProgressLimitTest, ToExpectNothingIsToBeJudgedFromOutside) {
  ProgressLimit limit({}, kStart);
  limit.Heard(Beat(3), At(1));
  limit.Heard({3, "end", Duration::zero()}, At(2));
  EXPECT_FALSE(Tell(limit, 1000).beats);
  EXPECT_EQ(Tell(limit, 1000).step, 3);
  limit.Heard(Beat(4), At(1001));
  EXPECT_TRUE(Tell(limit, 1001).beats);
}

TEST(ProgressLimitTest, AFloorReplacesBothFloors) {
  ProgressLimit limit(FloorsOf("5"), kStart);
  EXPECT_EQ(Tell(limit, 0).idle_limit, seconds(5));
  for (int s = 0; s < 3; ++s) limit.Heard(Beat(s), At(0.1 * s));
  EXPECT_EQ(Tell(limit, 1).beat_limit, seconds(5));
  EXPECT_EQ(FloorsOf("0.5").beats, milliseconds(500));
  EXPECT_EQ(FloorsOf("7200").first_step, minutes(15));
}

TEST(ProgressLimitTest, AFloorThatIsNoNumberIsNone) {
  for (const char* text : {"", "x", "5x", "-1", "0", "nan", "inf", "1e300"}) {
    EXPECT_EQ(FloorsOf(text).outside, seconds(60)) << text;
    EXPECT_EQ(FloorsOf(text).beats, seconds(300)) << text;
  }
}

TEST(ProgressLimitTest, WhatIsSeenIsToldToPeople) {
  ProgressLimit limit({}, kStart);
  EXPECT_EQ(Tell(limit, 5).seen, "nothing since its start 5 s ago");
  limit.Saw(Sign::kOutput, At(10));
  limit.Saw(Sign::kNetwork, At(12.5));
  EXPECT_EQ(Tell(limit, 20).seen, "output 10 s ago, network 7 s ago");
  limit.Heard(Beat(1), At(20));
  EXPECT_EQ(Tell(limit, 20).seen, "heartbeat 0 s ago, output 10 s ago, network 7 s ago");
}

TEST(WatchedTimeTest, PassesAsTheClockDoes) {
  WatchedTime time(seconds(1));
  EXPECT_EQ(time.At(At(0)), At(0));
  EXPECT_EQ(time.At(At(1)), At(1));
  EXPECT_EQ(time.At(At(3)), At(3)) << "late by one interval";
}

TEST(WatchedTimeTest, LeavesOutWhatWasSleptThrough) {
  WatchedTime time(seconds(1));
  time.At(At(0));
  EXPECT_EQ(time.At(At(3600)), At(1));
  EXPECT_EQ(time.At(At(3601)), At(2));
  EXPECT_EQ(time.At(At(4000)), At(3));
}

TEST(WatchedTimeTest, LeavesOutShortAbsencesToo) {
  WatchedTime time(seconds(1));
  time.At(At(0));
  EXPECT_EQ(time.At(At(2.5)), At(1));
  EXPECT_EQ(time.At(At(8)), At(2));
}

TEST(WatchedTimeTest, SoAMachineThatSleptAccusesNobody) {
  WatchedTime time(seconds(1));
  ProgressLimit limit({}, time.At(At(0)));
  limit.Heard(Beat(1), time.At(At(0.5)));
  Vitals vitals;
  limit.Tell(time.At(At(36000)), &vitals);
  EXPECT_LT(vitals.idle, seconds(3));
  EXPECT_LT(vitals.beat_age, seconds(3));
}

}  // namespace
}  // namespace everstep
