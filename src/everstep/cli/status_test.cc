// cli: rules of a job's status, on the bytes of its directory.
#include "everstep/cli/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() { EXPECT_TRUE(fs_.CreateDirectories("/j/terms").ok()); }
  void PutTerm(const ProcessIdentity& process, int64_t counter = 0, bool ended = false) {
    TermHolder holder;
    holder.term = 3;
    holder.process = process;
    holder.counter = counter;
    holder.ended = ended;
    ASSERT_TRUE(PublishFile(fs_, TermPath("/j", 3), ToTermJson(holder)).ok());
  }
  void PutStatus(const std::string& phase = "training",
                 const std::string& line = "view 3.1 of 2 workers") {
    JobStatus s;
    s.phase = phase;
    s.line = line;
    s.restarts = 1;
    s.restarts_left = 9;
    s.term = 3;
    s.step = 120;
    s.incidents = 1;
    s.checkpoint_step = 100;
    s.scalars.total_steps = 400;
    s.scalars.epochs = 4;
    s.scalars.values = {{"loss", 0.25}};
    s.tasks = {{"worker:0", "a", "training", "input", 120, 0.1}};
    s.time = "2026-11-30T19:30:07.123Z";
    ASSERT_TRUE(PublishFile(fs_, StatusPath("/j"), ToStatusJson(s)).ok());
  }
  JobGlance Look() {
    auto glance = GlanceAt(fs_, "/j", milliseconds(400));
    EXPECT_TRUE(glance.ok()) << glance.status();
    return glance.ok() ? *glance : JobGlance{};
  }

  const ProcessIdentity far_ = {"far", "boot", "pid:[1]", 77, 5};
  MemoryFileSystem fs_;
};

TEST_F(StatusTest, OfAJobThatNeverRanSaysHowToRunIt) {
  EXPECT_EQ(Look().life, JobLife::kNeverRan);
  EXPECT_THAT(GlanceText(Look()),
              HasSubstr("never ran; go on with it by everstep run --resume /j"));
}

TEST_F(StatusTest, OfOneWhoseCoordinatorLivesHereSaysThatItRuns) {
  PutTerm(OwnIdentity());
  PutStatus();
  EXPECT_EQ(Look().life, JobLife::kRunning);
  const std::string text = GlanceText(Look());
  EXPECT_THAT(text, HasSubstr("running, the run of term 3 (pid "));
  EXPECT_THAT(text, HasSubstr("training: view 3.1 of 2 workers"));
  EXPECT_THAT(text, HasSubstr("120 of 400, epoch 1 of 4, loss 0.25"));
  EXPECT_THAT(text, HasSubstr("step 100, "));
  EXPECT_THAT(text, HasSubstr("worker:0     training, in input, step 120"));
}

TEST_F(StatusTest, OfOneElsewhereIsRunningWhileItsCounterRises) {
  PutTerm(far_, 1);
  std::atomic<bool> stop{false};
  std::thread holder([&] {
    for (int64_t counter = 2; !stop; ++counter) {
      SleepFor(milliseconds(20));
      PutTerm(far_, counter);
    }
  });
  EXPECT_EQ(Look().life, JobLife::kRunning);
  stop = true;
  holder.join();
  EXPECT_EQ(Look().life, JobLife::kVanished);
}

TEST_F(StatusTest, OfOneThatVanishedSaysWhenItWasHeardAndHowToGoOn) {
  ProcessIdentity gone = OwnIdentity();
  gone.start_time -= 1;
  PutTerm(gone);
  PutStatus();
  EXPECT_EQ(Look().life, JobLife::kVanished);
  const std::string text = GlanceText(Look());
  EXPECT_THAT(text, HasSubstr("vanished: last heard "));
  EXPECT_THAT(text, HasSubstr(" s ago; go on with it by everstep run --resume /j"));
  EXPECT_THAT(text, Not(HasSubstr("worker:0"))) << "it is not there any more";
}

TEST_F(StatusTest, OfOneThatEndedSaysHow) {
  PutTerm(far_, 9, true);
  EXPECT_EQ(Look().life, JobLife::kEnded);
  ASSERT_TRUE(PublishFile(fs_, OutcomePath("/j"), ToOutcomeJson({0, "", 400, {}, ""})).ok());
  EXPECT_THAT(GlanceText(Look()), HasSubstr("state        done\n"));
  ASSERT_TRUE(PublishFile(fs_, OutcomePath("/j"), ToOutcomeJson({3, "why", 4, {}, ""})).ok());
  EXPECT_THAT(GlanceText(Look()), HasSubstr("ended with exit code 3: why; go on with it by"));
}

TEST_F(StatusTest, OfOneThatDoesNotRunNamesTheCheckpointThatIsThere) {
  PutTerm(far_, 9, true);
  PutStatus();
  EXPECT_THAT(GlanceText(Look()), HasSubstr("checkpoint   none\n")) << "that of the status is gone";
  JobGlance glance = Look();
  glance.checkpoint = CheckpointGlance{140, "step-140-h0-v3.1", 75.0};
  EXPECT_THAT(GlanceText(glance),
              HasSubstr("checkpoint   step 140 (step-140-h0-v3.1, 1 min old)\n"));
}

TEST_F(StatusTest, ThePhaseIsToldOnce) {
  PutTerm(OwnIdentity());
  PutStatus("restarting", "restarting: 2 processes have not exited yet");
  EXPECT_THAT(GlanceText(Look()),
              HasSubstr("phase        restarting: 2 processes have not exited yet\n"));
  PutStatus("training", "");
  EXPECT_THAT(GlanceText(Look()), HasSubstr("phase        training\n"));
}

TEST_F(StatusTest, RestartsAreToldWhileTheyCount) {
  PutTerm(OwnIdentity());
  PutStatus();
  EXPECT_THAT(GlanceText(Look()),
              HasSubstr("restarts     1 in this run (9 left until the next checkpoint)\n"));
  EXPECT_THAT(GlanceText(Look()), HasSubstr("incidents    1; everstep report /j tells more\n"));
  PutTerm(far_, 9, true);
  ASSERT_TRUE(PublishFile(fs_, OutcomePath("/j"), ToOutcomeJson({0, "", 400, {}, ""})).ok());
  EXPECT_THAT(GlanceText(Look()), Not(HasSubstr("restarts")));
}

TEST_F(StatusTest, ADamagedFileIsNamed) {
  ASSERT_TRUE(PublishFile(fs_, StatusPath("/j"), "{").ok());
  const auto glance = GlanceAt(fs_, "/j", milliseconds(1));
  EXPECT_EQ(glance.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(glance.status().message()), HasSubstr("/j/status.json"));
}

TEST_F(StatusTest, ForScriptsItIsJson) {
  PutTerm(far_, 9, true);
  PutStatus();
  const auto json = nlohmann::json::parse(GlanceJson(Look()));
  EXPECT_EQ(json["life"], "ended");
  EXPECT_EQ(json["status"]["step"], 120);
  EXPECT_EQ(json["term"]["term"], 3);
  EXPECT_GT(json["heard_seconds_ago"], -1);
}

}  // namespace
}  // namespace everstep
