// job: tests of JobSpec.
#include "everstep/job/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"

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

TEST(ResolveJob, SeedIsDrawnUnlessSaid) {
  EXPECT_EQ(ResolveJob({{"seed", "7"}}, From({}))->seed, 7u);
  const uint64_t a = ResolveJob({}, From({}))->seed, b = ResolveJob({}, From({}))->seed;
  EXPECT_NE(a, b);
  EXPECT_LT(a, uint64_t{1} << 32);
}

TEST(ResolveJob, FewerReplicasThanWorkersAreRefusedAsSpares) {
  const absl::Status status = ResolveJob({{"workers", "4"}, {"replicas", "3"}}, From({})).status();
  EXPECT_EQ(ExitCodeFor(status), kExitUsage);
  EXPECT_THAT(Message(status), HasSubstr("spares"));
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
      {"workers", "-1"},       {"workers", " 1"},
      {"workers", "1e3"},      {"workers", "99999999999999999999"},
      {"seed", "-1"},          {"port", "0"},
      {"port", "65536"},       {"port-range", "29710"},
      {"port-range", "5-4"},   {"port-range", "0-5"},
      {"cpu-baseline", "sse"}, {"log-level", "loud"},
      {"lost-after", "nan"},   {"lost-after", "0"},
      {"grace-seconds", "-1"}, {"insecure", "maybe"},
      {"job-dir", ""}};
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
                          {"insecure", "1"}},
                         From({}));
  ASSERT_TRUE(spec.ok()) << spec.status();
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
}

TEST(JobFromEnvironment, IsNotTouchedByTheLaunchersOwnVariables) {
  EXPECT_EQ(JobFromEnvironment(1, From({{"EVERSTEP_WORKERS", "nonsense"}}))->workers, 1);
}

TEST(ResolvedJson, ReadsBackWhatItWrote) {
  auto spec = ResolveJob({{"workers", "2"}, {"seed", "9007199254740993"}, {"lost-after", "0.1"}},
                         From({{"EVERSTEP_LOG_LEVEL", "info"}}));
  ASSERT_TRUE(spec.ok());
  spec->directory = "/jobs/a \"b\"";
  const std::string text = ToResolvedJson(*spec, "0.1.0", {"prog", "\xff\xfe"});
  const auto read = FromResolvedJson(text, "resolved.json");
  ASSERT_TRUE(read.ok()) << read.status() << text;
  EXPECT_EQ(read->seed, 9007199254740993u);
  EXPECT_EQ(read->directory, spec->directory);
  EXPECT_EQ(read->lost_after, spec->lost_after);
  EXPECT_EQ(read->port, std::nullopt);
  EXPECT_EQ(read->origins, spec->origins);
  EXPECT_THAT(text, HasSubstr("\"from\": \"environment\""));
}

TEST(ResolvedJson, DamageIsDataLossAndNamesThePath) {
  const std::string good = ToResolvedJson(*ResolveJob({}, From({})), "0.1.0", {"p"});
  for (const std::string& text :
       {std::string(), std::string("[]"), good.substr(0, good.size() / 2), std::string("{}")}) {
    const absl::Status status = FromResolvedJson(text, "/j/resolved.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
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
