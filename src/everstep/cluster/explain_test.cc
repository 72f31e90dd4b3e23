// cluster: tests of a place in plain words.
#include "everstep/cluster/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "everstep/cluster/tf_config_roles.h"

namespace everstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto kUnknown = StrategyKind::kUnknown;
constexpr auto kServers = StrategyKind::kParameterServer;

TfConfig Place(std::map<std::string, std::vector<std::string>> jobs, const Task& task) {
  TfConfig config;
  config.cluster.jobs = std::move(jobs);
  config.task = task;
  return config;
}

TEST(ExplainPlace, AloneIsSaid) {
  EXPECT_EQ(ExplainPlace(TfConfig(), kUnknown),
            "This process is alone: there is no cluster. It trains by itself and saves.\n"
            "TensorFlow listens on no port and waits for nobody.\n");
}

TEST(ExplainPlace, OfAWorkerBesideAChief) {
  EXPECT_EQ(
      ExplainPlace(
          Place({{"chief", {"c:1"}}, {"worker", {"a:1", "[fd00::1]:2222"}}}, {"worker", 1}),
          kUnknown),
      "This process is worker:1 at [fd00::1]:2222, rank 2 of 3 trainers.\n"
      "The chief is chief:0 at c:1; it saves checkpoints and writes summaries.\n"
      "This process must save when the chief does, but elsewhere, to be thrown away.\n"
      "The leader of the collectives is chief:0 at c:1; the coordination leader is chief:0 at "
      "c:1.\n"
      "TensorFlow listens on 0.0.0.0:2222 here (all interfaces, without TLS); the others connect "
      "to [fd00::1]:2222.\n"
      "At the start of the strategy it waits until all 3 trainers are there; in each step all wait "
      "for the slowest.\n"
      "The cluster:\n"
      "  chief:0 at c:1\n"
      "  worker:0 at a:1\n"
      "  worker:1 at [fd00::1]:2222 (this process)\n");
}

TEST(ExplainPlace, WithoutAChiefTheFirstWorkerIsIt) {
  const std::string text =
      ExplainPlace(Place({{"worker", {"a:1", "b:1"}}}, {"worker", 0}), kUnknown);
  EXPECT_THAT(text, HasSubstr("The chief is this process (no chief is named: worker 0 is it)"));
  EXPECT_THAT(text, Not(HasSubstr("thrown away")));
}

TEST(ExplainPlace, OfEachRoleOfAParameterServerJob) {
  const std::map<std::string, std::vector<std::string>> jobs = {
      {"chief", {"c:1"}}, {"ps", {"p:1"}}, {"worker", {"a:1", "b:1"}}};
  EXPECT_THAT(ExplainPlace(Place(jobs, {"chief", 0}), kUnknown),
              HasSubstr("The coordinator is this process: it runs the training program, gives the "
                        "steps out, and saves.\nIt does not compute steps: it connects to 2 "
                        "workers and 1 ps, and tries for about three minutes.\n"));
  const std::string worker = ExplainPlace(Place(jobs, {"worker", 0}), kServers);
  EXPECT_THAT(worker, HasSubstr("This process is worker:0 at a:1.\nThe coordinator is chief:0 at "
                                "c:1"));
  EXPECT_THAT(worker, HasSubstr("computes the steps"));
  EXPECT_THAT(worker, HasSubstr("The server never returns"));
  EXPECT_THAT(ExplainPlace(Place(jobs, {"ps", 0}), kServers), HasSubstr("holds its part of the "
                                                                        "variables"));
}

TEST(ExplainPlace, AnEvaluatorStandsApart) {
  for (const auto& jobs : std::vector<std::map<std::string, std::vector<std::string>>>{
           {{"evaluator", {"e:1"}}}, {{"worker", {"a:1"}}}}) {
    const std::string text = ExplainPlace(Place(jobs, {"evaluator", 0}), kUnknown);
    EXPECT_THAT(text, HasSubstr("It stands apart"));
    EXPECT_THAT(text, Not(HasSubstr("0.0.0.0")));
  }
}

TEST(ExplainPlace, OfManyPeersSomeAreNamed) {
  std::vector<std::string> workers;
  for (int i = 0; i < 1000; ++i) workers.push_back("h" + std::to_string(i) + ":1");
  EXPECT_THAT(ExplainPlace(Place({{"worker", workers}}, {"worker", 700}), kUnknown),
              testing::AllOf(HasSubstr("  worker:19 at h19:1\n  and 980 more of worker\n"),
                             HasSubstr("rank 700 of 1000 trainers")));
}

TEST(RolesOf, RanksTheChiefFirst) {
  const std::map<std::string, std::vector<std::string>> jobs = {
      {"chief", {"c:1"}}, {"ps", {"p:1"}}, {"worker", {"a:1", "b:1"}}};
  EXPECT_EQ(RolesOf(Place(jobs, {"chief", 0})).rank, 0);
  EXPECT_EQ(RolesOf(Place(jobs, {"worker", 1})).rank, 2);
  EXPECT_EQ(RolesOf(Place(jobs, {"worker", 1})).count, 3);
  EXPECT_FALSE(RolesOf(Place(jobs, {"worker", 0})).is_chief);
  EXPECT_EQ(RolesOf(Place(jobs, {"ps", 0})).rank, std::nullopt);
  EXPECT_EQ(RolesOf(Place(jobs, {"ps", 0})).coordination_leader, (Task{"ps", 0}));
  EXPECT_EQ(RolesOf(Place(jobs, {"ps", 0})).collective_leader, (Task{"chief", 0}));
}

}  // namespace
}  // namespace everstep
