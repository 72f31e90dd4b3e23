// job: tests of JobSpec.
#include "everstep/job/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/job/resolved.h"

namespace everstep {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, std::string>;

Environment From(Values values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ResolveJob, FlagGoesBeforeEnvironmentBeforeDefault) {
  const auto spec =
      ResolveJob({{"workers", "4"}}, From({{"EVERSTEP_WORKERS", "2"}, {"EVERSTEP_REPLICAS", "8"}}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->workers, 4);
  EXPECT_EQ(spec->replicas, 8);
  EXPECT_EQ(spec->threads_per_replica, 1);
  EXPECT_EQ(spec->origins.at("workers"), "flag");
  EXPECT_EQ(spec->origins.at("replicas"), "environment");
  EXPECT_EQ(spec->origins.at("threads-per-replica"), "default");
}

TEST(ResolveJob, ReplicasAreTheWorkersUnlessSaid) {
  EXPECT_EQ(ResolveJob({{"workers", "3"}}, From({}))->replicas, 3);
}

TEST(ResolveJob, AllTasksAreWaitedForFiveMinutesUnlessSaidAndARunMaySayOtherwise) {
  const auto spec = ResolveJob({}, From({}));
  EXPECT_EQ(spec->join_deadline, std::chrono::seconds(300));
  EXPECT_EQ(ResolveJob({}, From({{"EVERSTEP_JOIN_DEADLINE", "7"}}))->join_deadline,
            std::chrono::seconds(7));
  const auto again = ResolveAgain(*spec, *spec, {{"join-deadline", "0.5"}}, From({}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->join_deadline, std::chrono::milliseconds(500));
  EXPECT_EQ(ToSettings(*again).count("EVERSTEP_JOIN_DEADLINE"), 0u) << "no matter of workers";
}

TEST(ResolveJob, SeedIsDrawnUnlessSaid) {
  EXPECT_EQ(ResolveJob({{"seed", "7"}}, From({}))->seed, 7u);
  const uint64_t a = ResolveJob({}, From({}))->seed, b = ResolveJob({}, From({}))->seed;
  EXPECT_NE(a, b);
  EXPECT_LT(a, uint64_t{1} << 32);
  EXPECT_EQ(ResolveJob({}, From({}))->origins.at("seed"), "drawn");
}

TEST(ResolveJob, FewerReplicasThanWorkersAreRefusedAsSpares) {
  const absl::Status status = ResolveJob({{"workers", "4"}, {"replicas", "3"}}, From({})).status();
  EXPECT_EQ(ExitCodeFor(status), kExitUsage);
  EXPECT_THAT(Message(status), HasSubstr("spares"));
}

TEST(ResolveJob, AGangHasNoReplicasToShareOutAndMayBeOfAnySize) {
  const auto spec = ResolveJob({{"workers", "4"}, {"replicas", "3"}, {"gang", "1"}}, From({}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->replicas, 4);
  EXPECT_TRUE(ResolveJob({{"workers", "4"}, {"chief", "1"}, {"replicas", "3"}}, From({})).ok());
  const auto more = ResolveAgain(*spec, *spec, {{"workers", "6"}}, From({}));
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(more->replicas, 6);
}

TEST(ResolveJob, BadFlagIsUsageAndNamesFlagValueAndCure) {
  const absl::Status status = ResolveJob({{"workers", "0"}}, From({})).status();
  EXPECT_EQ(ExitCodeFor(status), kExitUsage);
  EXPECT_EQ(Message(status), "-n must be a whole number from 1 to 100000, not '0'");
}

TEST(ResolveJob, BadVariableIsConfigurationAndNamesTheVariable) {
  const absl::Status status = ResolveJob({}, From({{"EVERSTEP_PORT", "x"}})).status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_THAT(Message(status), HasSubstr("EVERSTEP_PORT must be"));
}

TEST(ResolveJob, NonsenseIsRefused) {
  const std::pair<const char*, const char*> bad[] = {
      {"workers", "-1"},        {"workers", " 1"},
      {"workers", "1e3"},       {"workers", "99999999999999999999"},
      {"seed", "-1"},           {"port", "0"},
      {"port", "65536"},        {"port-range", "29710"},
      {"port-range", "5-4"},    {"port-range", "0-5"},
      {"cpu-baseline", "sse"},  {"log-level", "loud"},
      {"lost-after", "nan"},    {"lost-after", "0"},
      {"join-deadline", "0"},   {"join-deadline", "soon"},
      {"grace-seconds", "-1"},  {"insecure", "maybe"},
      {"job-dir", ""},          {"checkpoint-every-steps", "-1"},
      {"max-restarts", "x"},    {"checkpoint-every-seconds", "0"},
      {"keep-checkpoints", ""}, {"keep-every-steps", "1.5"}};
  for (const auto& [name, value] : bad) {
    EXPECT_FALSE(ResolveJob({{name, value}}, From({})).ok()) << name << " " << value;
  }
}

TEST(JobFromEnvironment, SeesWhatToSettingsSays) {
  auto spec = ResolveJob({{"workers", "2"},
                          {"replicas", "6"},
                          {"seed", "12345"},
                          {"job-dir", "/tmp/x"},
                          {"threads-per-replica", "3"},
                          {"cpu-baseline", "avx2"},
                          {"port-range", "30000-30010"},
                          {"lost-after", "0.5"},
                          {"grace-seconds", "1.25"},
                          {"log-level", "debug"},
                          {"checkpoint-every-steps", "100"},
                          {"checkpoint-every-seconds", "2.5"},
                          {"keep-checkpoints", "0"},
                          {"keep-every-steps", "1000"},
                          {"max-restarts", "3"},
                          {"insecure", "1"}},
                         From({}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  spec->restore_from = "/j/checkpoints/step-1-h0-v1.1";
  const Values settings = ToSettings(*spec);
  EXPECT_EQ(settings.count("EVERSTEP_WORKERS"), 0u) << "TF_CONFIG says that";
  const auto seen = JobFromEnvironment(2, From(settings));
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->replicas, 6);
  EXPECT_EQ(seen->seed, 12345u);
  EXPECT_EQ(seen->directory, "/tmp/x");
  EXPECT_EQ(seen->threads_per_replica, 3);
  EXPECT_EQ(seen->cpu_baseline, "avx2");
  EXPECT_EQ(seen->port_range.first, 30000);
  EXPECT_EQ(seen->port_range.last, 30010);
  EXPECT_EQ(seen->lost_after, std::chrono::milliseconds(500));
  EXPECT_EQ(seen->grace, std::chrono::milliseconds(1250));
  EXPECT_EQ(seen->log_level, "debug");
  EXPECT_TRUE(seen->insecure);
  EXPECT_EQ(seen->checkpoint_every_steps, 100);
  EXPECT_EQ(seen->checkpoint_every, std::chrono::milliseconds(2500));
  EXPECT_EQ(seen->keep_checkpoints, 0);
  EXPECT_EQ(seen->keep_every_steps, 1000);
  EXPECT_EQ(seen->restore_from, spec->restore_from);
  EXPECT_EQ(settings.count("EVERSTEP_MAX_RESTARTS"), 0u) << "no business of a worker";
}

TEST(ToSettings, SayAlsoWhatIsNotSaid) {
  // An agent's own variables would else reach the workers of its host, and of no other.
  const Values settings = ToSettings(*ResolveJob({}, From({})));
  EXPECT_EQ(settings.at("EVERSTEP_CHECKPOINT_EVERY_SECONDS"), "");
  EXPECT_EQ(settings.at("EVERSTEP_RESTORE_FROM"), "");
  const auto seen = JobFromEnvironment(1, From(settings));
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->checkpoint_every, std::nullopt);
  EXPECT_EQ(seen->restore_from, "");
  EXPECT_EQ(seen->keep_checkpoints, 5);
}

TEST(JobFromEnvironment, IsNotTouchedByTheLaunchersOwnVariables) {
  EXPECT_EQ(JobFromEnvironment(1, From({{"EVERSTEP_WORKERS", "nonsense"}}))->workers, 1);
}

class ResolveAgainTest : public ::testing::Test {
 protected:
  ResolveAgainTest() {
    job_ = *ResolveJob({{"workers", "2"}, {"replicas", "4"}, {"seed", "7"}, {"lost-after", "1"}},
                       From({}));
    last_ = job_;
    last_.workers = 3;
    last_.directory = "/j";
  }
  absl::StatusOr<JobSpec> Again(const Values& flags, const Values& environment = {}) {
    return ResolveAgain(job_, last_, flags, From(environment));
  }
  JobSpec job_, last_;
};

TEST_F(ResolveAgainTest, IsAsBeforeUnlessSaid) {
  const auto spec = Again({}, {{"EVERSTEP_JOB_DIR", "/other"}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->workers, 3) << "the last run's";
  EXPECT_EQ(spec->replicas, 4);
  EXPECT_EQ(spec->seed, 7u);
  EXPECT_EQ(spec->lost_after, std::chrono::seconds(1));
  EXPECT_EQ(spec->directory, "/j");
  EXPECT_EQ(spec->origins.at("seed"), "job");
}

TEST_F(ResolveAgainTest, WhatIsNotTheJobsForLifeMayBeGivenAnew) {
  const auto spec = Again({{"workers", "1"}, {"keep-checkpoints", "9"}, {"seed", "7"}},
                          {{"EVERSTEP_LOST_AFTER", "4"}, {"EVERSTEP_WORKERS", "2"}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->workers, 1);
  EXPECT_EQ(spec->keep_checkpoints, 9);
  EXPECT_EQ(spec->lost_after, std::chrono::seconds(4));
  EXPECT_EQ(spec->origins.at("lost-after"), "environment");
}

TEST_F(ResolveAgainTest, WhatIsTheJobsForLifeIsRefusedNamingBothValues) {
  const std::pair<const char*, const char*> others[] = {
      {"seed", "8"}, {"replicas", "5"}, {"threads-per-replica", "2"}, {"cpu-baseline", "avx2"}};
  for (const auto& [name, value] : others) {
    const absl::Status flag = Again({{name, value}}).status();
    EXPECT_EQ(ExitCodeFor(flag), kExitUsage) << name;
    EXPECT_THAT(Message(flag), HasSubstr(std::string("--") + name + " says " + value + ", but "));
  }
  EXPECT_THAT(Message(Again({{"seed", "8"}}).status()), HasSubstr("but 7 is the job's seed"));
  const absl::Status variable = Again({}, {{"EVERSTEP_SEED", "8"}}).status();
  EXPECT_EQ(ExitCodeFor(variable), kExitConfiguration);
  EXPECT_THAT(Message(variable), HasSubstr("EVERSTEP_SEED says 8, but 7 is"));
}

TEST_F(ResolveAgainTest, TheReplicasAreTheJobsWhateverTheLastRunSays) {
  last_.replicas = 6;
  last_.seed = 1;
  const auto spec = Again({});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->replicas, 4);
  EXPECT_EQ(spec->seed, 7u);
}

TEST_F(ResolveAgainTest, MoreWorkersThanReplicasAreRefused) {
  const absl::Status flag = Again({{"workers", "5"}}).status();
  EXPECT_EQ(ExitCodeFor(flag), kExitUsage);
  EXPECT_THAT(Message(flag), HasSubstr("give -n 4 or fewer"));
  EXPECT_EQ(ExitCodeFor(Again({}, {{"EVERSTEP_WORKERS", "5"}}).status()), kExitConfiguration);
  EXPECT_TRUE(Again({{"workers", "4"}}).ok());
}

TEST_F(ResolveAgainTest, NonsenseIsRefusedAsAtTheStart) {
  EXPECT_EQ(ExitCodeFor(Again({{"workers", "0"}}).status()), kExitUsage);
  EXPECT_EQ(ExitCodeFor(Again({{"seed", "x"}}).status()), kExitUsage);
  EXPECT_EQ(ExitCodeFor(Again({}, {{"EVERSTEP_SEED", "x"}}).status()), kExitConfiguration);
}

TEST(ResolvedJson, ReadsBackWhatItWrote) {
  ResolvedJob job;
  job.spec = *ResolveJob({{"workers", "2"},
                          {"seed", "9007199254740993"},
                          {"lost-after", "0.1"},
                          {"insecure", "1"},
                          {"checkpoint-every-seconds", "30"}},
                         From({{"EVERSTEP_LOG_LEVEL", "info"}}));
  job.spec.directory = "/jobs/a \"b\"";
  job.spec.restore_from = "/jobs/c/checkpoints/step-1-h0-v1.1";
  job.program = {"prog", "\xff\xfe", ""};
  job.version = "0.1.0";
  job.time = "2026-11-30T19:30:07.123Z";
  const std::string text = ToResolvedJson(job);
  const auto read = FromResolvedJson(text, "resolved.json");
  ASSERT_TRUE(read.ok()) << read.status() << text;
  EXPECT_EQ(read->spec.seed, 9007199254740993u);
  EXPECT_EQ(read->spec.directory, job.spec.directory);
  EXPECT_EQ(read->spec.restore_from, job.spec.restore_from);
  EXPECT_EQ(read->spec.lost_after, job.spec.lost_after);
  EXPECT_EQ(read->spec.checkpoint_every, std::chrono::seconds(30));
  EXPECT_EQ(read->spec.port, std::nullopt);
  EXPECT_TRUE(read->spec.insecure);
  EXPECT_EQ(read->spec.origins, job.spec.origins);
  EXPECT_EQ(read->program, job.program) << "any bytes";
  EXPECT_EQ(read->version, job.version);
  EXPECT_EQ(read->time, job.time);
  EXPECT_EQ(ToResolvedJson(*read), text);
  EXPECT_THAT(text, HasSubstr("\"from\": \"environment\""));
  EXPECT_THAT(text, HasSubstr("\"value\": true")) << "insecure";
}

TEST(ResolvedJson, OfAnOlderVersionIsRead) {
  // It said "insecure" in text, had fewer options and no time.
  const auto read = FromResolvedJson(R"({"format":"everstep.job.v1","version":"0.0.9",
    "program":["p"],"options":{"workers":{"value":3,"from":"flag"},
    "insecure":{"value":"1","from":"flag"},"seed":{"value":5,"from":"default"}}})",
                                     "resolved.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec.workers, 3);
  EXPECT_TRUE(read->spec.insecure);
  EXPECT_EQ(read->spec.keep_checkpoints, 5);
  EXPECT_EQ(read->spec.origins.at("keep-checkpoints"), "default");
}

TEST(ResolvedJson, OfALaterFormatIsRefusedByName) {
  const absl::Status status =
      FromResolvedJson(R"({"format":"everstep.job.v2","options":{}})", "/j/resolved.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("/j/resolved.json is of the format everstep.job.v2"));
}

TEST(ResolvedJson, DamageIsDataLossAndNamesThePath) {
  const std::string good = ToResolvedJson({*ResolveJob({}, From({})), {"p"}, "0.1.0", ""});
  for (const std::string& text :
       {std::string(), std::string("[]"), good.substr(0, good.size() / 2), std::string("{}"),
        std::string(R"({"format":"everstep.job.v1"})"),
        std::string(R"({"format":"everstep.job.v1","options":{"seed":{"value":-1,"from":""}}})"),
        std::string(R"({"format":"everstep.job.v1","options":{"seed":{"value":1}}})"),
        std::string(R"({"format":"everstep.job.v1","options":{},"program":[1]})")}) {
    const absl::Status status = FromResolvedJson(text, "/j/resolved.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(Message(status), HasSubstr("/j/resolved.json"));
  }
}

TEST(JobOptionTable, NamesFlagsAndVariablesAlike) {
  for (const JobOption& option : JobOptionTable()) {
    if (std::string(option.name) == "port-range") {
      EXPECT_EQ(option.Flag(), "--port-range");
      EXPECT_EQ(option.Variable(), "EVERSTEP_PORT_RANGE");
      return;
    }
  }
  FAIL() << "no port-range";
}

}  // namespace
}  // namespace everstep
