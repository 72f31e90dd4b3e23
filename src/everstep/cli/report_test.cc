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

}  // namespace
}  // namespace everstep
