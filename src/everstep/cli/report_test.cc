// cli: rules of a job's report, on the bytes of incidents.jsonl.
#include "everstep/cli/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  // At `second` of one minute.
  void Line(double second, const std::string& fields) {
    absl::StrAppend(&text_, "{\"format\":\"everstep.incident.v1\",\"time\":\"", At(second), "\",",
                    fields, "}\n");
  }
  static std::string At(double second) {
    return absl::StrFormat("2026-11-30T19:%02d:%06.3fZ", static_cast<int>(second) / 60,
                           second - 60 * (static_cast<int>(second) / 60));
  }
  JobReport Make() { return MakeReport(ParseIncidents(text_), status_); }

  std::string text_;
  std::optional<JobStatus> status_;
};

TEST_F(ReportTest, ARunWithoutIncidentsLosesNothing) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(2, R"("kind":"training","term":1,"view":"1.1","step":0)");
  Line(30, R"("kind":"run_ended","term":1,"step":100,"exit_code":0)");
  const JobReport report = Make();
  ASSERT_EQ(report.runs.size(), 1u);
  EXPECT_DOUBLE_EQ(report.runs[0].seconds, 30);
  EXPECT_EQ(report.runs[0].exit_code, 0);
  EXPECT_EQ(report.runs[0].step, 100);
  EXPECT_EQ(report.goodput, 1);
  EXPECT_THAT(ReportText(report), HasSubstr("done, step 100"));
  EXPECT_THAT(ReportText(report), HasSubstr("1 run, 30.0 s; 0 incidents, 0.0 s lost; goodput 100"));
  EXPECT_THAT(ReportText(report), Not(HasSubstr("could not be read")));
}

TEST_F(ReportTest, StepsRepeatedCountFromWhereItsOwnRunWentOnThoughThatVanishedToo) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(2, R"("kind":"training","term":1,"step":0)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1,"step":500,"action":"restart")");
  Line(12, R"("kind":"training","term":1,"step":100)");
  Line(20, R"("kind":"run_vanished","incident":2,"term":1,"step":400,"lost_seconds":1)");
  Line(21, R"("kind":"run_started","term":2)");
  Line(22, R"("kind":"training","term":2,"step":350)");
  Line(40, R"("kind":"run_ended","term":2,"exit_code":0)");
  const JobReport report = Make();
  ASSERT_EQ(report.incidents.size(), 2u);
  EXPECT_EQ(report.incidents[0].repeated_steps, 400);
  EXPECT_EQ(report.incidents[1].repeated_steps, 50);
  EXPECT_THAT(ReportText(report), HasSubstr(", 450 steps repeated; goodput "));
}

TEST_F(ReportTest, ARecoveredIncidentCostsWhatItsRecoverySays) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(
      10,
      R"("kind":"worker_failed","incident":1,"term":1,"cause":"worker:1 was killed","task":"worker:1","host":"b/f5aa4fc6/40","step":50,"action":"restart","log":"logs/x","tail":["boom"],"oom":true)");
  Line(14, R"("kind":"training","term":1,"step":40)");
  Line(16, R"("kind":"recovered","incident":1,"term":1,"lost_seconds":6,"repeated_steps":10)");
  Line(40, R"("kind":"run_ended","term":1,"exit_code":0)");
  const JobReport report = Make();
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_TRUE(report.incidents[0].recovered);
  EXPECT_DOUBLE_EQ(report.incidents[0].lost_seconds, 6);
  EXPECT_EQ(report.incidents[0].repeated_steps, 10);
  EXPECT_DOUBLE_EQ(report.lost_seconds, 6);
  EXPECT_DOUBLE_EQ(report.goodput, 1 - 6.0 / 40);
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("worker:1 was killed, out of memory, host b, step 50\n"
                              "       restart, recovered: 6.0 s lost, 10 steps repeated\n"
                              "       log logs/x\n       | boom\n"));
}

TEST_F(ReportTest, ASecondOfTwoIncidentsAtOnceIsLostOnce) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1)");
  Line(12, R"("kind":"worker_failed","incident":2,"term":1)");
  Line(20, R"("kind":"recovered","incident":1,"term":1,"lost_seconds":10)");
  Line(20, R"("kind":"recovered","incident":2,"term":1,"lost_seconds":8)");
  Line(20, R"("kind":"run_ended","term":1,"exit_code":0)");
  EXPECT_DOUBLE_EQ(Make().lost_seconds, 10);
  EXPECT_DOUBLE_EQ(Make().goodput, 0.5);
  EXPECT_THAT(ReportText(Make()), HasSubstr("10.0 s lost (overlaps counted once)"));
}

TEST_F(ReportTest, AVanishedRunCostsTheGapAndTheStepsThatAreRepeated) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(5, R"("kind":"training","term":1,"step":0)");
  // Heard last at 25, at step 100: 0.2 s a step.
  Line(
      40,
      R"("kind":"run_vanished","incident":1,"term":1,"cause":"without a word","step":100,"lost_seconds":15,"action":"restart")");
  Line(40, R"("kind":"run_started","term":2)");
  Line(43, R"("kind":"training","term":2,"step":80)");
  Line(100, R"("kind":"run_ended","term":2,"step":365,"exit_code":0)");
  const JobReport report = Make();
  ASSERT_EQ(report.runs.size(), 2u);
  EXPECT_TRUE(report.runs[0].vanished);
  EXPECT_DOUBLE_EQ(report.runs[0].seconds, 25);
  EXPECT_DOUBLE_EQ(report.wall_seconds, 25 + 15 + 60);
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_EQ(report.incidents[0].repeated_steps, 20);
  EXPECT_DOUBLE_EQ(report.incidents[0].lost_seconds, 18 + 20 * 0.2);
  EXPECT_TRUE(report.incidents[0].recovered);
  EXPECT_NEAR(report.goodput, 0.78, 1e-9);
  EXPECT_THAT(ReportText(report), HasSubstr("vanished, step 100"));
  EXPECT_THAT(ReportText(report),
              HasSubstr("restart, recovered: 22.0 s lost (idle 15.0 s), 20 steps repeated\n"));
}

TEST_F(ReportTest, ARunThatAnIncidentEndedCostsUntilItsEndAndWhatTheNextRepeats) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(0, R"("kind":"training","term":1,"step":0)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1,"step":10,"action":"end")");
  Line(
      11,
      R"("kind":"run_ended","term":1,"step":10,"exit_code":3,"cause":"worker:0 exited with code 3")");
  // Nobody wanted it to run meanwhile.
  Line(300, R"("kind":"run_started","term":2)");
  Line(302, R"("kind":"training","term":2,"step":6)");
  Line(320, R"("kind":"run_ended","term":2,"step":30,"exit_code":0)");
  const JobReport report = Make();
  EXPECT_DOUBLE_EQ(report.wall_seconds, 11 + 20);
  EXPECT_EQ(report.incidents.at(0).repeated_steps, 4);
  EXPECT_DOUBLE_EQ(report.incidents[0].lost_seconds, 1 + 4);
  EXPECT_THAT(ReportText(report), HasSubstr("exit code 3, step 10: worker:0 exited with code 3"));
  EXPECT_THAT(ReportText(report),
              HasSubstr("the run ended; a later run recovered: 5.0 s lost, 4 steps repeated\n"));
}

TEST_F(ReportTest, ARunThatGoesOnIsAsLongAsItWasHeard) {
  Line(0, R"("kind":"run_started","term":4)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":4)");
  status_ = JobStatus{"restarting"};
  status_->term = 4;
  status_->step = 17;
  status_->time = At(25);
  const JobReport report = Make();
  EXPECT_DOUBLE_EQ(report.runs.at(0).seconds, 25);
  EXPECT_EQ(report.runs[0].step, 17);
  EXPECT_FALSE(report.incidents.at(0).recovered);
  EXPECT_DOUBLE_EQ(report.lost_seconds, 15);
  EXPECT_THAT(ReportText(report), HasSubstr("running, step 17"));
  EXPECT_THAT(ReportText(report), HasSubstr(", not yet recovered: 15.0 s so far\n"));
  const std::string gone = ReportText(MakeReport(ParseIncidents(text_), status_, true));
  EXPECT_THAT(gone, HasSubstr("vanished, step 17"));
  EXPECT_THAT(gone, HasSubstr(", not recovered: 15.0 s lost\n"));
}

TEST_F(ReportTest, ARunIsAtItsLastStepThoughItWasFurtherBeforeItRestarted) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(2, R"("kind":"training","term":1,"step":0)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1,"step":946,"action":"restart")");
  Line(12, R"("kind":"training","term":1,"step":0)");
  EXPECT_EQ(Make().runs.at(0).step, 0);
  Line(20, R"("kind":"run_ended","term":1,"step":805,"exit_code":137)");
  EXPECT_EQ(Make().runs.at(0).step, 805);
}

TEST_F(ReportTest, AJobThatDidNoStepHasNoGoodput) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(1, R"("kind":"worker_failed","incident":1,"term":1,"action":"end")");
  Line(1, R"("kind":"run_ended","term":1,"exit_code":65)");
  EXPECT_THAT(ReportText(Make()), Not(HasSubstr("goodput")));
  EXPECT_THAT(ReportText(Make()), HasSubstr("0.0 s lost; no step was done\n"));
  EXPECT_THAT(ReportText(Make()), HasSubstr("the run ended, not recovered"));
}

TEST_F(ReportTest, WhatCostsNoStepIsToldBesides) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(5, R"("kind":"checkpoint_failed","incident":1,"term":1,"cause":"disk full","step":5)");
  Line(6, R"("kind":"run_ended","term":1,"exit_code":0)");
  EXPECT_EQ(Make().notes.size(), 1u);
  EXPECT_EQ(Make().lost_seconds, 0);
  EXPECT_THAT(ReportText(Make()), HasSubstr("checkpoint_failed: disk full"));
}

TEST_F(ReportTest, LinesThatCannotBeReadAreCountedAndTheRestCounts) {
  Line(0, R"("kind":"run_started","term":1)");
  absl::StrAppend(&text_, "{\"format\":\"everstep.incident.v1\",\"ti\n\xff\n");
  absl::StrAppend(&text_, R"({"format":"everstep.incident.v7","kind":"x"})", "\n");
  Line(8, R"("kind":"run_ended","term":1,"exit_code":0)");
  EXPECT_EQ(Make().unreadable, 3);
  EXPECT_DOUBLE_EQ(Make().wall_seconds, 8);
  EXPECT_THAT(ReportText(Make()), HasSubstr("3 lines of incidents.jsonl could not be read"));
}

TEST_F(ReportTest, NoPrefixOfTheFileHarms) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(5, R"("kind":"training","term":1,"step":0)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1,"step":50)");
  Line(40, R"("kind":"run_vanished","incident":2,"term":1,"step":100,"lost_seconds":1e300)");
  Line(50, R"("kind":"training","term":2,"step":9)");
  const std::string whole = text_;
  for (size_t n = 0; n <= whole.size(); ++n) {
    const JobReport report = MakeReport(ParseIncidents(whole.substr(0, n)), std::nullopt);
    EXPECT_GE(report.goodput, 0);
    EXPECT_LE(report.goodput, 1);
    EXPECT_GE(report.lost_seconds, 0);
    EXPECT_FALSE(nlohmann::json::parse(ReportJson(report), nullptr, false).is_discarded());
  }
}

TEST_F(ReportTest, ForScriptsItIsJson) {
  Line(0, R"("kind":"run_started","term":1)");
  Line(1, R"("kind":"training","term":1,"step":0)");
  Line(10, R"("kind":"worker_failed","incident":1,"term":1,"cause":"x","step":3)");
  Line(12, R"("kind":"recovered","incident":1,"term":1,"lost_seconds":2,"repeated_steps":3)");
  Line(20, R"("kind":"run_ended","term":1,"exit_code":0)");
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/j").ok());
  std::ostringstream out;
  EXPECT_EQ(PrintReport(fs, "/j", true, out).code(), absl::StatusCode::kDataLoss) << "never ran";
  ASSERT_TRUE(PublishFile(fs, "/j/incidents.jsonl", text_).ok());
  ASSERT_TRUE(PrintReport(fs, "/j", true, out).ok());
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["format"], "everstep.report.v1");
  EXPECT_EQ(json["runs"][0]["state"], "ended");
  EXPECT_EQ(json["incidents"][0]["record"]["cause"], "x");
  EXPECT_EQ(json["incidents"][0]["repeated_steps"], 3);
  EXPECT_DOUBLE_EQ(json["goodput"], 0.9);
}

// --- gangs ---

class GangReportTest : public ReportTest {
 protected:
  GangReportTest() {
    status_ = JobStatus{"running"};
    status_->gang = true;
    status_->term = 1;
    status_->time = At(40);
    Line(0, R"("kind":"run_started","term":1)");
    Line(0, R"("kind":"training","term":1)");
  }
  void End(double second) { Line(second, R"("kind":"run_ended","term":1,"exit_code":0)"); }
};

TEST_F(GangReportTest, AHangIsToldWithItsEvidenceItsStacksAndItsCost) {
  Line(
      10,
      R"("kind":"worker_hung","incident":1,"term":1,"task":"worker:1","cause":"worker:1 is stopped by a signal since 5.0 s","evidence":"strong","stacks":"/j/logs/worker_1/stacks-2.txt","log":"/l","action":"restart")");
  Line(15, R"("kind":"training","term":1)");
  Line(20, R"("kind":"recovered","incident":1,"term":1,"lost_seconds":15)");
  End(100);
  const JobReport report = Make();
  EXPECT_FALSE(report.incidents.at(0).alone);
  EXPECT_DOUBLE_EQ(report.lost_seconds, 15);
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("since 5.0 s, on strong evidence\n"
                              "       restart, recovered: 15.0 s lost\n"
                              "       log /l\n"
                              "       stacks /j/logs/worker_1/stacks-2.txt\n"));
  EXPECT_THAT(text, HasSubstr("1 incident, 15.0 s lost; goodput 85.0 %\n"
                              "  by time only: what was done again after a restart is not seen\n"));
}

TEST_F(GangReportTest, WhatWasOnlyToldOfCostsNothing) {
  Line(
      10,
      R"("kind":"worker_hung","incident":1,"term":1,"cause":"shows no progress for 63 s","evidence":"weak")");
  Line(20, R"("kind":"no_checkpoint","incident":2,"term":1,"cause":"a restart would lose 31 min")");
  Line(25, R"("kind":"checkpoint_rejected","incident":3,"term":1,"cause":"ckpt-5 is damaged")");
  Line(
      30,
      R"("kind":"worker_failed","incident":4,"term":1,"task":"evaluator:0","cause":"it is not started again")");
  End(40);
  const JobReport report = Make();
  EXPECT_TRUE(report.incidents.empty());
  EXPECT_EQ(report.notes.size(), 4u);
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("worker_hung (weak evidence): shows no progress for 63 s\n"));
  EXPECT_THAT(text, HasSubstr("no_checkpoint: a restart would lose 31 min\n"));
  EXPECT_THAT(text, HasSubstr("0 incidents, 0.0 s lost; goodput 100.0 %\n"));
  EXPECT_THAT(text, Not(HasSubstr("by time only")));
}

TEST_F(GangReportTest, ATaskThatIsRestartedAloneCostsTheOthersOnlyWhatTheyWaitForIt) {
  Line(5, R"("kind":"worker_failed","incident":1,"term":1,"task":"worker:1","action":"restart")");
  Line(9, R"("kind":"recovered","incident":1,"term":1,"lost_seconds":4)");
  Line(10, R"("kind":"worker_failed","incident":2,"term":1,"task":"ps:0","action":"restart")");
  Line(20, R"("kind":"recovered","incident":2,"term":1,"lost_seconds":10)");
  End(100);
  const JobReport report = Make();
  EXPECT_TRUE(report.incidents.at(0).alone);
  EXPECT_DOUBLE_EQ(report.incidents[0].lost_seconds, 4);
  EXPECT_DOUBLE_EQ(report.lost_seconds, 10);
  EXPECT_THAT(ReportText(report), HasSubstr("restart of it alone, back after 4.0 s\n"));
  const auto json = nlohmann::json::parse(ReportJson(report));
  EXPECT_EQ(json["gang"], true);
  EXPECT_EQ(json["incidents"][0]["alone"], true);
}

TEST_F(GangReportTest, StepsOfHeartbeatsCountAsSteps) {
  Line(
      10,
      R"("kind":"worker_failed","incident":1,"term":1,"task":"worker:1","step":50,"action":"restart")");
  Line(12, R"("kind":"training","term":1)");
  Line(15,
       R"("kind":"recovered","incident":1,"term":1,"step":50,"lost_seconds":5,"repeated_steps":7)");
  End(50);
  EXPECT_EQ(Make().repeated_steps, 7);
  EXPECT_THAT(ReportText(Make()), HasSubstr("recovered: 5.0 s lost, 7 steps repeated\n"));
}

}  // namespace
}  // namespace everstep
