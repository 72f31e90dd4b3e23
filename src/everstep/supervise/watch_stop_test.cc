// supervise: the watch and programs that are stopped by signals.
#include <gmock/gmock.h>
#include <signal.h>

#include "everstep/supervise/watch_test_fixture.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(WatchTest, AStoppedProgramIsTold) {
  Process& process = Shell(1, "sleep 60");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.memory > 0; }));
  process.Signal(SIGSTOP);
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.stopped > milliseconds(500); }));
  EXPECT_THAT(vitals_[1].seen, HasSubstr("stopped for"));
  process.Signal(SIGCONT);
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.stopped == Duration::zero(); }));
}

TEST_F(WatchTest, AStoppedPythonUnderAShellIsToldToo) {
  Shell(1, "python3 -c 'import time; open(\"up\", \"w\"); time.sleep(60)'; true");
  ASSERT_TRUE(Eventually([&] { return RealFileSystem().Exists(dir_.File("up")); }));
  processes_.at(1).SignalGroup(SIGSTOP);
  processes_.at(1).Signal(SIGCONT);  // the shell goes on to wait
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.stopped > milliseconds(200); }));
}

TEST_F(WatchTest, AProgramIsNotStoppedForAHelperThatIs) {
  Python(1,
         "import signal, subprocess, time\n"
         "subprocess.Popen(['sleep', '61']).send_signal(signal.SIGSTOP)\n"
         "time.sleep(60)\n");
  ASSERT_TRUE(Until(1, [](const Vitals& v) {
    return v.idle > seconds(1) && v.seen.find("(sleep 61) is stopped by a signal") != v.seen.npos;
  }));
  EXPECT_EQ(vitals_[1].stopped, Duration::zero());
}

TEST_F(WatchTest, AProgramThatIsContinuedAgainAndAgainIsNeverStoppedForLong) {
  Process& process = Shell(1, "while :; do :; done");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.memory > 0; }));
  for (int i = 0; i < 40; ++i) {  // as cpulimit does it
    process.Signal(SIGSTOP);
    SleepFor(milliseconds(47));
    process.Signal(SIGCONT);
    SleepFor(milliseconds(3));
    Take();
    EXPECT_LT(vitals_[1].stopped, milliseconds(700));
  }
  process.Signal(SIGSTOP);
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.stopped > milliseconds(700); }));
  EXPECT_THAT(vitals_[1].stopped_process, HasSubstr("(bash -c while"));
}

TEST_F(WatchTest, AStoppedProgramThatPrintsGoesOn) {
  Process& process = Shell(1, "sleep 60");
  process.Signal(SIGSTOP);
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.stopped > seconds(1); }));
  watch_->SawOutput(1, 1);
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.idle < seconds(1); }));
  EXPECT_LT(vitals_[1].stopped, seconds(1));
}

}  // namespace
}  // namespace everstep
