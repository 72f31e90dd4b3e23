// job: rules of the lines of incidents.jsonl and of status.json.
#include "everstep/job/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "everstep/job/status.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobRecord Full() {
  JobRecord r;
  r.kind = record_kind::kWorkerFailed;
  r.incident = 3;
  r.term = 2;
  r.cause = "worker:1 was killed by signal 9 (SIGKILL)";
  r.task = "worker:1";
  r.host = "b";
  r.view = {2, 7};
  r.history = 1;
  r.step = 0;
  r.restored_step = 100;
  r.exit_code = 137;
  r.signal = 9;
  r.oom = true;
  r.tail = {"a\nb", "\"\\", ""};
  r.log = "logs/worker_1/17.log";
  r.action = "restart";
  r.restarts_left = 0;
  r.back_off_seconds = 0.25;
  r.lost_seconds = 1e-3;
  r.repeated_steps = 20;
  r.time = "2026-11-30T19:30:07.123Z";
  return r;
}

TEST(JobRecord, ReadsBackEveryField) {
  const JobRecord a = Full();
  const auto b = FromJsonLine(ToJsonLine(a));
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->kind, a.kind);
  EXPECT_EQ(b->incident, a.incident);
  EXPECT_EQ(b->term, a.term);
  EXPECT_EQ(b->cause, a.cause);
  EXPECT_EQ(b->task, a.task);
  EXPECT_EQ(b->host, a.host);
  EXPECT_EQ(b->view, a.view);
  EXPECT_EQ(b->history, a.history);
  EXPECT_EQ(b->step, a.step);
  EXPECT_EQ(b->restored_step, a.restored_step);
  EXPECT_EQ(b->exit_code, a.exit_code);
  EXPECT_EQ(b->signal, a.signal);
  EXPECT_EQ(b->oom, a.oom);
  EXPECT_EQ(b->tail, a.tail);
  EXPECT_EQ(b->log, a.log);
  EXPECT_EQ(b->action, a.action);
  EXPECT_EQ(b->restarts_left, a.restarts_left);
  EXPECT_EQ(b->back_off_seconds, a.back_off_seconds);
  EXPECT_EQ(b->lost_seconds, a.lost_seconds);
  EXPECT_EQ(b->repeated_steps, a.repeated_steps);
  EXPECT_EQ(b->time, a.time);
  EXPECT_EQ(ToJsonLine(*b), ToJsonLine(a)) << "a field is not compared above";
}

TEST(JobRecord, IsOneLineWhateverTheTaskPrinted) {
  EXPECT_THAT(ToJsonLine(Full()), Not(HasSubstr("\n")));
  JobRecord r;
  r.kind = record_kind::kWorkerFailed;
  r.tail = {"\xff\xfe\r\n"};
  const std::string line = ToJsonLine(r);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_TRUE(FromJsonLine(line).ok());
}

TEST(JobRecord, LeavesOutWhatIsNotKnown) {
  JobRecord r;
  r.kind = record_kind::kRunStarted;
  EXPECT_EQ(ToJsonLine(r), R"({"format":"everstep.incident.v1","kind":"run_started"})");
  const auto b = FromJsonLine(ToJsonLine(r));
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->step, std::nullopt);
  EXPECT_EQ(b->exit_code, std::nullopt);
}

TEST(JobRecord, PassesOverFieldsOfALaterVersion) {
  EXPECT_TRUE(
      FromJsonLine(R"({"format":"everstep.incident.v1","kind":"stopped","mood":[{}]})").ok());
}

TEST(JobRecord, AFormatOfTheFutureIsRefusedByName) {
  const auto b = FromJsonLine(R"({"format":"everstep.incident.v2","kind":"stopped"})");
  EXPECT_EQ(b.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("everstep.incident.v2"));
}

TEST(JobRecord, EveryTornLineIsRefused) {
  const std::string line = ToJsonLine(Full());
  for (size_t n = 0; n < line.size(); ++n) {
    EXPECT_EQ(FromJsonLine(line.substr(0, n)).status().code(), absl::StatusCode::kDataLoss) << n;
  }
}

TEST(JobRecord, AFieldOfAnotherTypeIsNamed) {
  for (const char* field : {R"("step":"1")", R"("step":1.5)", R"("step":18446744073709551615)",
                            R"("tail":"x")", R"("tail":[1])", R"("oom":1)", R"("view":"7")",
                            R"("exit_code":5000000000)", R"("lost_seconds":"1")", R"("cause":7)"}) {
    const auto b =
        FromJsonLine(std::string(R"({"format":"everstep.incident.v1","kind":"a",)") + field + "}");
    EXPECT_EQ(b.status().code(), absl::StatusCode::kDataLoss) << field;
    const std::string name = std::string(field).substr(1, std::string(field).find(':') - 2);
    EXPECT_THAT(std::string(b.status().message()), HasSubstr(name));
  }
  EXPECT_FALSE(FromJsonLine(R"({"format":"everstep.incident.v1"})").ok()) << "no kind";
}

JobStatus Training() {
  JobStatus s;
  s.phase = "training";
  s.line = "view 2.1 of 2 workers";
  s.term = 2;
  s.view = {2, 1};
  s.history = 1;
  s.step = 120;
  s.workers_wanted = 2;
  s.restarts = 1;
  s.restarts_left = 9;
  s.incidents = 4;
  s.checkpoint_step = 100;
  s.checkpoint_age_seconds = 3.5;
  s.scalars = {1000, 1, 10, 20, 100, 55.5, {{"loss", 0.25}, {"accuracy", 0.5}}};
  s.tasks = {{"worker:0", "a", "training", "input", 120, 0.1},
             {"worker:1", "b", "gone", "", 119, 2.25}};
  s.exit_code = 0;
  s.reason = "a\nb";
  s.time = "2026-11-30T19:30:07.123Z";
  return s;
}

TEST(JobStatus, ReadsBackEveryField) {
  const JobStatus a = Training();
  const auto b = FromStatusJson(ToStatusJson(a), "status.json");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->phase, a.phase);
  EXPECT_EQ(b->line, a.line);
  EXPECT_EQ(b->view, a.view);
  EXPECT_EQ(b->step, a.step);
  EXPECT_EQ(b->restarts_left, a.restarts_left);
  EXPECT_EQ(b->checkpoint_step, a.checkpoint_step);
  EXPECT_EQ(b->scalars.values, a.scalars.values) << "their order too";
  EXPECT_EQ(b->scalars.step(), a.scalars.step());
  ASSERT_EQ(b->tasks.size(), 2u);
  EXPECT_EQ(b->tasks[1].state, "gone");
  EXPECT_EQ(b->tasks[1].silent_seconds, 2.25);
  EXPECT_EQ(ToStatusJson(*b), ToStatusJson(a)) << "a field is lost";
}

TEST(JobStatus, SaysNothingOfACheckpointOrAnEndThatIsNotThere) {
  JobStatus s;
  s.phase = "gathering";
  const std::string text = ToStatusJson(s);
  EXPECT_THAT(text, Not(HasSubstr("checkpoint")));
  EXPECT_THAT(text, Not(HasSubstr("exit_code")));
  const auto b = FromStatusJson(text, "status.json");
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->checkpoint_step, -1);
  EXPECT_EQ(b->exit_code, -1);
}

TEST(JobStatus, AFigureThatIsNoNumberStaysNone) {
  JobStatus s = Training();
  s.scalars.values = {{"loss", std::nan("")}};
  const auto b = FromStatusJson(ToStatusJson(s), "status.json");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_TRUE(std::isnan(b->scalars.values[0].second));
}

TEST(JobStatus, DamageIsDataLossAndNamesThePath) {
  const std::string good = ToStatusJson(Training());
  std::vector<std::string> bad = {"", "[]", "{}", R"({"format":"everstep.status.v1"})",
                                  R"({"format":"everstep.status.v9","phase":"training"})"};
  for (const char* part :
       {R"("scalars":[])", R"("scalars":{"values":[1]})", R"("scalars":{"epoch":"1"})",
        R"("tasks":{})", R"("tasks":[7])", R"("tasks":[{"step":"x"}])"}) {
    bad.push_back(std::string(R"({"format":"everstep.status.v1","phase":"training",)") + part +
                  "}");
  }
  for (size_t n = 0; n + 2 < good.size(); ++n) bad.push_back(good.substr(0, n));
  for (const std::string& text : bad) {
    const auto b = FromStatusJson(text, "/j/status.json");
    EXPECT_EQ(b.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(b.status().message()), HasSubstr("/j/status.json"));
  }
}

}  // namespace
}  // namespace everstep
