// cluster: tests of Slurm's texts and of the place of a process that srun started.
#include "everstep/cluster/slurm.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/cluster/resolver_test_util.h"

namespace everstep {
namespace {

std::string Hosts(const std::string& text) {
  const auto hosts = ExpandSlurmHosts(text, "L");
  return hosts.ok() ? absl::StrJoin(*hosts, " ") : std::string(hosts.status().message());
}

std::string Tasks(const std::string& text) {
  const auto tasks = ExpandSlurmTasksPerNode(text, "T");
  return tasks.ok() ? absl::StrJoin(*tasks, " ") : std::string(tasks.status().message());
}

std::string Bad(const std::string& what) {
  return absl::StrCat("EV520: L ", what,
                      "; write it as `scontrol show hostlist` does, e.g. n[01-03,07],login");
}

TEST(SlurmHosts, ListsAndRanges) {
  EXPECT_EQ(Hosts("n1"), "n1");
  EXPECT_EQ(Hosts("n2,n10,n1"), "n2 n10 n1");
  EXPECT_EQ(Hosts("n[01-03,07],login,rack[1-2]n[1-2]"),
            "n01 n02 n03 n07 login rack1n1 rack1n2 rack2n1 rack2n2");
  EXPECT_EQ(Hosts("[1-3]"), "1 2 3");
  EXPECT_EQ(Hosts("gpu-a.site_[9-11]"), "gpu-a.site_9 gpu-a.site_10 gpu-a.site_11");
}

TEST(SlurmHosts, OrderIsTheListsOwnAndEqualNamesStay) {
  EXPECT_EQ(Hosts("a[3-4,1-2]"), "a3 a4 a1 a2");
  EXPECT_EQ(Hosts("n[1,1],n1"), "n1 n1 n1");
}

TEST(SlurmHosts, ZerosAreThoseOfTheRangesFirstNumber) {
  EXPECT_EQ(Hosts("n[08,9,10-12]"), "n08 n9 n10 n11 n12");
  EXPECT_EQ(Hosts("n[098-101]"), "n098 n099 n100 n101");
  EXPECT_EQ(Hosts("n[99-101]"), "n99 n100 n101");
  EXPECT_EQ(Hosts("n[1-02]"), "n1 n2");
}

TEST(SlurmHosts, OfSeveralBracketsTheLastRunsFastestThenFromTheFirstOn) {
  EXPECT_EQ(Hosts("n[1-2][3-4]"), "n13 n14 n23 n24");
  EXPECT_EQ(Hosts("n[1-2]x[3-4]y[5-6]"), "n1x3y5 n1x3y6 n2x3y5 n2x3y6 n1x4y5 n1x4y6 n2x4y5 n2x4y6");
}

TEST(SlurmHosts, ANameMayGoOnAfterItsBracket) { EXPECT_EQ(Hosts("n[1-2]-ib,b"), "n1-ib n2-ib b"); }

TEST(SlurmHosts, EmptyPlacesInAListAreNone) {
  EXPECT_EQ(Hosts(",a,,b,"), "a b");
  EXPECT_EQ(Hosts(" a b\tc\nd"), "a b c d");
}

TEST(SlurmHosts, BadOnesNameTheByte) {
  EXPECT_EQ(Hosts(""), Bad("(byte 1): names no host"));
  EXPECT_EQ(Hosts(","), Bad("(byte 1): names no host"));
  EXPECT_EQ(Hosts("n[1-2"), Bad("(byte 6): ends where ',' or ']' is expected"));
  EXPECT_EQ(Hosts("n1-2]"), Bad("(byte 5): ']' where a host name or '[' is expected"));
  EXPECT_EQ(Hosts("n[]"), Bad("(byte 3): ']' where a number is expected"));
  EXPECT_EQ(Hosts("n[1-]"), Bad("(byte 5): ']' where a number is expected"));
  EXPECT_EQ(Hosts("a,n[3-1]"), Bad("(byte 5): the range falls"));
  EXPECT_EQ(Hosts("n[1,a]"), Bad("(byte 5): 'a' where a number is expected"));
  EXPECT_EQ(Hosts("n[1-2-3]"), Bad("(byte 6): '-' where ',' or ']' is expected"));
  EXPECT_EQ(Hosts("n[[1]]"), Bad("(byte 3): '[' where a number is expected"));
  EXPECT_EQ(Hosts("n;m"), Bad("(byte 2): ';' where a host name or '[' is expected"));
  EXPECT_EQ(Hosts(std::string("n\0m", 3)),
            Bad("(byte 2): '?' where a host name or '[' is expected"));
  EXPECT_EQ(Hosts("n[1234567890123456789]"),
            Bad("(byte 3): a number of 19 digits; 18 are the most"));
}

TEST(SlurmHosts, LimitsOfHostsTextAndNames) {
  EXPECT_EQ(ExpandSlurmHosts("n[1-100000]", "L")->size(), kMaxSlurmHosts);
  EXPECT_EQ(Hosts("n[0-100000]"), Bad("(byte 3): more than 100000 hosts"));
  EXPECT_EQ(Hosts("n[1-100000],a"), Bad("(byte 13): more than 100000 hosts"));
  EXPECT_EQ(Hosts("n[1-1000]x[1-1000]"), Bad("(byte 11): more than 100000 hosts"));
  EXPECT_EQ(Hosts("n[1-999999999999999999]"), Bad("(byte 3): more than 100000 hosts"));
  EXPECT_EQ(Hosts(std::string(253, 'a')), std::string(253, 'a'));
  EXPECT_EQ(Hosts(std::string(254, 'a')), Bad("(byte 1): a host name of more than 253 bytes"));
  EXPECT_EQ(Hosts(std::string(65537, ',')),
            Bad("(byte 65537): a text of 65537 bytes; 65536 are the most"));
}

TEST(SlurmTasksPerNode, IsExpanded) {
  EXPECT_EQ(Tasks("2(x3),1"), "2 2 2 1");
  EXPECT_EQ(Tasks("4"), "4");
  EXPECT_EQ(Tasks("3(x2),2,1"), "3 3 2 1");
}

TEST(SlurmTasksPerNode, BadOnesNameTheByte) {
  const std::string cure = "; write it as Slurm does, e.g. 2(x3),1";
  EXPECT_EQ(Tasks(""), "EV521: T (byte 1): ends where a number is expected" + cure);
  EXPECT_EQ(Tasks("2,"), "EV521: T (byte 3): ends where a number is expected" + cure);
  EXPECT_EQ(Tasks("2(3)"),
            "EV521: T (byte 3): '3' where 'x' and a number of nodes is expected" + cure);
  EXPECT_EQ(Tasks("2(x3"), "EV521: T (byte 5): ends where ')' is expected" + cure);
  EXPECT_EQ(Tasks("2x"), "EV521: T (byte 2): 'x' where ',' or '(' is expected" + cure);
  EXPECT_EQ(Tasks("1,0"), "EV521: T (byte 3): a number that is 0" + cure);
  EXPECT_EQ(Tasks("1(x100001)"), "EV521: T (byte 1): more than 100000 tasks" + cure);
  EXPECT_EQ(Tasks("50000,50001"), "EV521: T (byte 7): more than 100000 tasks" + cure);
}

Variables StepOf(int rank) {
  return {{"SLURM_PROCID", absl::StrCat(rank)},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_NODELIST", "n[2,10]"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};
}
Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
auto Read(const Variables& variables) { return ReadSlurmStep(ReaderOf(variables)); }

TEST(SlurmStep, TasksFillOneNodeAfterTheOther) {
  const auto told = Read(StepOf(2));
  ASSERT_TRUE(told.ok() && told->has_value()) << told.status();
  EXPECT_THAT((*told)->cluster.jobs,
              testing::ElementsAre(testing::Pair(
                  "worker", testing::ElementsAre("n2:29710", "n2:29711", "n10:29710"))));
  EXPECT_EQ((*told)->task, (Task{"worker", 2}));
}

TEST(SlurmStep, PortsBeginWhereToldTo) {
  const auto told = Read(With(StepOf(0), {{"EVERSTEP_SLURM_PORT_BASE", "8888"}}));
  ASSERT_TRUE(told.ok() && told->has_value()) << told.status();
  EXPECT_THAT((*told)->cluster.jobs.at("worker"),
              testing::ElementsAre("n2:8888", "n2:8889", "n10:8888"));
  ExpectRefusal(
      Read(With(StepOf(0), {{"EVERSTEP_SLURM_PORT_BASE", "65535"}})),
      "EV504: EVERSTEP_SLURM_PORT_BASE: 65535 leaves no port for task 1 of a node; set it "
      "to at most 65534");
  ExpectRefusal(
      Read(With(StepOf(0), {{"EVERSTEP_SLURM_PORT_BASE", "http"}})),
      "EV504: EVERSTEP_SLURM_PORT_BASE: 'http' is not a number from 1 to 65535; write one, "
      "or unset EVERSTEP_SLURM_PORT_BASE");
}

TEST(SlurmStep, OfOneTaskOrNoneSaysNothing) {
  EXPECT_EQ(Read({})->has_value(), false);
  EXPECT_EQ(Read({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})->has_value(), false);
}

TEST(SlurmStep, SaysWhereTensorFlowsOrderDiffers) {
  const auto told = Read(StepOf(0));
  ASSERT_TRUE(told.ok() && told->has_value()) << told.status();
  EXPECT_THAT((*told)->notes,
              testing::ElementsAre(
                  "Slurm's node 0 is n2; TensorFlow's SlurmClusterResolver sorts names as text and "
                  "would have n10 there: use the TF_CONFIG made here instead of it"));
  const auto same = Read(With(StepOf(0), {{"SLURM_STEP_NODELIST", "n[02,10]"}}));
  ASSERT_TRUE(same.ok() && same->has_value()) << same.status();
  EXPECT_THAT((*same)->notes, testing::IsEmpty());
}

TEST(SlurmStep, ItsOwnSeatMayAgree) {
  const auto told = Read(
      With(StepOf(1), {{"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "1"}, {"SLURMD_NODENAME", "n2"}}));
  EXPECT_TRUE(told.ok()) << told.status();
}

TEST(SlurmStep, CyclicRanksAreRefused) {
  ExpectRefusal(
      Read(With(StepOf(1), {{"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}})),
      "EV524: SLURM_PROCID: task 1 is number 0 on node 1, but ranks that fill one node "
      "after the other have it at number 1 on node 0; where the other tasks are cannot be "
      "told; start them with `srun -m block`");
  ExpectRefusal(
      Read(With(StepOf(2), {{"SLURMD_NODENAME", "n2"}})),
      "EV525: SLURMD_NODENAME: this node is 'n2', but by SLURM_STEP_NODELIST task 2 is on "
      "n10; start them with `srun -m block`, and without changing Slurm's variables");
}

TEST(SlurmStep, WhatIsMissingOrDisagreesIsNamed) {
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"}) {
    Variables variables = StepOf(0);
    variables.erase(name);
    ExpectRefusal(Read(variables), absl::StrCat("EV523: ", name, ": is not set, but ",
                                                "SLURM_STEP_NUM_TASKS is; start the processes with "
                                                "srun, which sets both"));
  }
  ExpectRefusal(Read(With(StepOf(0), {{"SLURM_PROCID", "3"}})),
                "EV504: SLURM_PROCID: '3' is not a number from 0 to 2; write one, or unset "
                "SLURM_PROCID");
  ExpectRefusal(Read(With(StepOf(0), {{"SLURM_STEP_TASKS_PER_NODE", "3"}})),
                "EV522: SLURM_STEP_TASKS_PER_NODE: speaks of 1 nodes, but SLURM_STEP_NODELIST has "
                "2; start the processes with srun, which sets both");
  ExpectRefusal(
      Read(With(StepOf(0), {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})),
      "EV522: SLURM_STEP_TASKS_PER_NODE: speaks of 4 tasks, but SLURM_STEP_NUM_TASKS says "
      "3; start the processes with srun, which sets both");
  ExpectRefusal(Read(With(StepOf(0), {{"SLURM_STEP_NODELIST", "n2,n2"}})),
                "EV522: SLURM_STEP_NODELIST: names n2 twice; name each node once");
  ExpectRefusal(
      Read(With(StepOf(0), {{"SLURM_STEP_NODELIST", "n[2,10"}})),
      "EV520: SLURM_STEP_NODELIST (byte 7): ends where ',' or ']' is expected; write it as "
      "`scontrol show hostlist` does, e.g. n[01-03,07],login");
}

}  // namespace
}  // namespace everstep
