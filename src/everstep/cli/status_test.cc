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
  EXPECT_THAT(
      GlanceText(Look()),
      HasSubstr("ended with exit code 3: why; it would fail again: correct it, then everstep "
                "run --resume /j [-- PROGRAM ARGUMENTS]\n"));
  PutStatus();
  EXPECT_THAT(GlanceText(Look()), HasSubstr("ended with exit code 3: why; go on with it by"))
      << "it had trained";
  EXPECT_THAT(WhatNext(fs_, "/j", 65, {"train", "--data", "a b"}),
              HasSubstr("run --resume /j [-- train --data 'a b']"));
  EXPECT_THAT(WhatNext(fs_, "/other", 143, {}), HasSubstr("go on with it by"));
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

class GangStatusTest : public StatusTest {
 protected:
  GangStatusTest() {
    status_.gang = true;
    status_.phase = "running";
    status_.line = "running: 2 processes";
    status_.term = 3;
    status_.unsaved_seconds = 185;
    status_.time = "2026-11-30T19:30:07.123Z";
    TaskStatus chief{"chief:0", "a", "running", "train", 120, 1};
    chief.cores = 1.25;
    chief.memory_bytes = int64_t{512} << 20;
    chief.seen = "output 1 s ago";
    TaskStatus worker{"worker:0", "b", "stopped", "", 0, 63};
    worker.seen = "output 63 s ago";
    worker.memory_bytes = int64_t{12} << 30;
    status_.tasks = {chief, worker, {"ps:0", "b", "running", "", 0, 0}};
  }
  // As if it had been said just now.
  std::string Text(JobLife life = JobLife::kRunning) {
    JobGlance glance;
    glance.job = "/j";
    glance.life = life;
    glance.term = TermHolder{};
    glance.status = status_;
    glance.heard_seconds_ago = 0;
    return GlanceText(glance);
  }
  JobStatus status_;
};

TEST_F(GangStatusTest, EachTaskIsALineOfATable) {
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("  task      state           step  silent  cores  memory   host  seen\n"
                        "  chief:0   running, train  120   1 s     1.2    512 MiB  a     output "
                        "1 s ago\n"
                        "  worker:0  stopped         -     1 min   0.0    12 GiB   b     output "
                        "63 s ago\n"
                        "  ps:0      running         -     -       -      -        b     "
                        "nothing yet\n"));
  EXPECT_THAT(text, HasSubstr("  step         120\n"));
  EXPECT_THAT(text, Not(HasSubstr("heard ")));
}

TEST_F(GangStatusTest, SaysWhatARestartWouldLose) {
  EXPECT_THAT(Text(), HasSubstr("  checkpoint   none seen: a restart would lose 3 min\n"));
  status_.checkpoint_path = "/ckpt/ckpt-5";
  status_.checkpoint_age_seconds = 190;
  EXPECT_THAT(Text(), HasSubstr("  checkpoint   /ckpt/ckpt-5, 3 min ago: a restart would lose 3 "
                                "min\n"));
  EXPECT_THAT(Text(JobLife::kVanished), HasSubstr("  checkpoint   /ckpt/ckpt-5, 3 min ago\n"));
  status_.phase = "restarting";
  EXPECT_THAT(Text(), Not(HasSubstr("would lose")));
}

TEST_F(GangStatusTest, NoStepIsToldWhereNoneIsKnown) {
  for (TaskStatus& task : status_.tasks) task.step = 0;
  EXPECT_THAT(Text(), Not(HasSubstr("\n  step ")));
}

TEST_F(GangStatusTest, AJobThatHasSavedSomethingMayGoOn) {
  const std::string correct = WhatNext(fs_, "/j", 1, {"train"});
  EXPECT_THAT(correct, HasSubstr("it would fail again: correct it"));
  status_.checkpoint_path = "/ckpt/ckpt-5";
  ASSERT_TRUE(PublishFile(fs_, StatusPath("/j"), ToStatusJson(status_)).ok());
  EXPECT_EQ(WhatNext(fs_, "/j", 1, {"train"}), "go on with it by everstep run --resume /j");
}

}  // namespace
}  // namespace everstep
