// cluster: tests of who says what this process's place is.
#include "everstep/cluster/resolver.h"

#include "everstep/cluster/resolver_test_util.h"

namespace everstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kTwo[] =
    R"({"cluster":{"worker":["n1:2222","n2:2222"]},"task":{"type":"worker","index":1}})";

// "TF_CONFIG worker:1 of 2, coordinator n1:29700", or the error.
std::string Told(const absl::StatusOr<Place>& place) {
  if (!place.ok()) return std::string(place.status().message());
  std::string text = NameOf(place->source);
  if (place->task.has_value()) text += " " + place->task->ToString();
  text += " of " + std::to_string(place->NumTrainers());
  if (!place->coordinator.empty()) text += ", coordinator " + place->coordinator;
  return text + (place->starts_coordinator ? " here" : "");
}
std::string Resolve(Variables variables, const std::string& host_name = "n2") {
  return Told(ResolvePlace(Around(std::move(variables), host_name)));
}
Variables Slurm(Variables more = {}) {
  Variables variables{{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_STEP_NODELIST", "n[1-2]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  more.merge(variables);
  return more;
}
Variables Pod(Variables more = {}) {
  Variables variables{
      {"JOB_COMPLETION_INDEX", "1"}, {"EVERSTEP_CLUSTER_SIZE", "2"}, {"EVERSTEP_SERVICE", "t.ns"}};
  more.merge(variables);
  return more;
}

TEST(ResolvePlace, NothingSaidIsAlone) {
  const auto place = ResolvePlace(Around({}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->source, PlaceSource::kAlone);
  EXPECT_FALSE(place->task.has_value());
  EXPECT_EQ(place->coordinator, "");
  EXPECT_THAT(place->notes, IsEmpty());
  EXPECT_EQ(Resolve({{"EVERSTEP_RESOLVER", "auto"}, {"EVERSTEP_WORKERS", "1"}}), "nobody of 0");
}

TEST(ResolvePlace, TfConfigAloneIsEnough) {
  EXPECT_EQ(Resolve({{"TF_CONFIG", kTwo}}), "TF_CONFIG worker:1 of 2, coordinator n1:29700");
  const auto place = ResolvePlace(Around({{"TF_CONFIG", kTwo}}));
  EXPECT_THAT(place->cluster.jobs,
              ElementsAre(testing::Pair("worker", ElementsAre("n1:2222", "n2:2222"))));
}

TEST(ResolvePlace, TheCoordinatorIsWhereTheChiefOrWorkerZeroIs) {
  const std::string chief =
      R"({"cluster":{"chief":["[fd00::1]:1"],"worker":["n2:1"]},"task":{"type":"chief","index":0}})";
  EXPECT_EQ(Resolve({{"TF_CONFIG", chief}}),
            "TF_CONFIG chief:0 of 2, coordinator [fd00::1]:29700 here");
  EXPECT_EQ(Resolve({{"TF_CONFIG", chief}, {"EVERSTEP_PORT", "30000"}}),
            "TF_CONFIG chief:0 of 2, coordinator [fd00::1]:30000 here");
  const std::string worker =
      R"({"cluster":{"chief":["n1:1"],"worker":["n2:1"]},"task":{"type":"worker","index":0}})";
  EXPECT_EQ(Resolve({{"TF_CONFIG", worker}}), "TF_CONFIG worker:0 of 2, coordinator n1:29700");
  Surroundings around = Around({{"TF_CONFIG", worker}});
  around.control_port = 31000;
  EXPECT_EQ(Told(ResolvePlace(around)), "TF_CONFIG worker:0 of 2, coordinator n1:31000");
  EXPECT_EQ(Resolve({{"TF_CONFIG", kTwo}, {"EVERSTEP_PORT", "0"}}),
            "EV504: EVERSTEP_PORT: '0' is not a number from 1 to 65535; write one, or unset "
            "EVERSTEP_PORT");
}

TEST(ResolvePlace, ACoordinatorThatIsNamedIsNotStarted) {
  const std::string first =
      R"({"cluster":{"worker":["n1:1","n2:1"]},"task":{"type":"worker","index":0}})";
  EXPECT_EQ(Resolve({{"TF_CONFIG", first}, {"EVERSTEP_COORDINATOR", "[fd00::9]:4000"}}),
            "TF_CONFIG worker:0 of 2, coordinator [fd00::9]:4000");
  EXPECT_EQ(Resolve({{"TF_CONFIG", first}}), "TF_CONFIG worker:0 of 2, coordinator n1:29700 here");
}

TEST(ResolvePlace, AClusterOfOneTrainerNeedsNoCoordinator) {
  const std::string one = R"({"cluster":{"worker":["n1:1"]},"task":{"type":"worker","index":0}})";
  EXPECT_EQ(Resolve({{"TF_CONFIG", one}}), "TF_CONFIG worker:0 of 1");
  EXPECT_EQ(Resolve({{"TF_CONFIG", one}, {"EVERSTEP_COORDINATOR", "c:1"}}),
            "TF_CONFIG worker:0 of 1, coordinator c:1");
}

TEST(ResolvePlace, ParameterServersAndEvaluatorsAreToldWhatTheyAre) {
  EXPECT_EQ(Resolve({{"TF_CONFIG", R"({"cluster":{"chief":["c:1"],"worker":["n1:1"],"ps":["p:1"]},)"
                                   R"("task":{"type":"ps","index":0}})"}}),
            "TF_CONFIG ps:0 of 2, coordinator c:29700");
  EXPECT_EQ(Resolve({{"TF_CONFIG", R"({"cluster":{"worker":["n1:1","n2:1"]},)"
                                   R"("task":{"type":"evaluator","index":0}})"}}),
            "TF_CONFIG evaluator:0 of 2, coordinator n1:29700");
  const auto place = ResolvePlace(
      Around({{"TF_CONFIG", R"({"cluster":{"ps":["p:1"]},"task":{"type":"ps","index":0}})"}}));
  EXPECT_EQ(Told(place), "TF_CONFIG ps:0 of 0");
  EXPECT_THAT(place->notes, ElementsAre("the cluster of TF_CONFIG has no chief and no worker: "
                                        "nobody trains in it"));
}

TEST(ResolvePlace, ABrokenTfConfigIsNotPassedOver) {
  const auto place = ResolvePlace(Around({{"TF_CONFIG", "{"}, {"EVERSTEP_COORDINATOR", "c:1"}}));
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(ExitCodeFor(place.status()), kExitConfiguration);
  EXPECT_THAT(std::string(place.status().message()), testing::HasSubstr("TF_CONFIG"));
}

TEST(ResolvePlace, DiscoveryIsACoordinatorAlone) {
  EXPECT_EQ(Resolve({{"EVERSTEP_COORDINATOR", "c:1"}}), "the coordinator of 0, coordinator c:1");
  EXPECT_EQ(Resolve({{"EVERSTEP_COORDINATOR", " c:1 "}, {"EVERSTEP_TASK", "worker:1"}}),
            "the coordinator worker:1 of 0, coordinator c:1");
  for (const char* text : {"c", "c:0", "fd00::1:29700", "c:65536", "c:x", ":1"}) {
    ExpectRefusal(ResolvePlace(Around({{"EVERSTEP_COORDINATOR", text}})),
                  std::string("EV503: EVERSTEP_COORDINATOR: '") + text +
                      "' is not HOST:PORT or [IPV6]:PORT with a port from 1 to 65535; set it to "
                      "where the coordinator listens, e.g. 10.0.0.1:29700");
  }
}

TEST(ResolvePlace, APasswordInAnAddressIsNotShown) {
  EXPECT_EQ(
      Resolve({{"EVERSTEP_COORDINATOR", "me:hunter2@c"}}),
      "EV503: EVERSTEP_COORDINATOR: (not shown: it looks like a secret) is not HOST:PORT or "
      "[IPV6]:PORT with a port from 1 to 65535; set it to where the coordinator listens, e.g. "
      "10.0.0.1:29700");
  for (const char* text : {"hunter2@c:1x", "token:hunter2", "http://c:1/?key=hunter2",
                           "c:1/hunter2", "u%3Ahunter2%40c:x", "hunter2"}) {
    EXPECT_THAT(Resolve({{"EVERSTEP_COORDINATOR", text}}),
                testing::Not(testing::HasSubstr("hunter2")));
    EXPECT_THAT(Resolve({{"EVERSTEP_CLUSTER_WORKERS", std::string("a:1,") + text},
                         {"EVERSTEP_TASK", "worker:0"}}),
                testing::Not(testing::HasSubstr("hunter2")));
  }
}

TEST(ResolvePlace, AutoAsksInOrder) {
  Variables all = Slurm(Pod({{"EVERSTEP_COORDINATOR", "c:1"}}));
  all["EVERSTEP_CLUSTER_WORKERS"] = "n1:1,n2:1";
  all["TF_CONFIG"] = kTwo;
  EXPECT_EQ(Resolve(all, "train-1"), "TF_CONFIG worker:1 of 2, coordinator c:1");
  all.erase("TF_CONFIG");
  EXPECT_EQ(Resolve(all, "n2"), "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator c:1");
  all.erase("EVERSTEP_CLUSTER_WORKERS");
  EXPECT_EQ(Resolve(all, "train-1"), "Slurm worker:0 of 2, coordinator c:1");
  all.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(Resolve(all, "train-1"), "Kubernetes worker:1 of 2, coordinator c:1");
  all.erase("JOB_COMPLETION_INDEX");
  EXPECT_EQ(Resolve(all, "train-1"), "the coordinator of 0, coordinator c:1");
}

TEST(ResolvePlace, AChoiceIsObeyed) {
  Variables all = Slurm(Pod({{"EVERSTEP_COORDINATOR", "c:1"}, {"TF_CONFIG", kTwo}}));
  all["EVERSTEP_CLUSTER_WORKERS"] = "n1:1,n2:1,n3:1";
  const std::pair<const char*, const char*> expected[] = {
      {"tf_config", "TF_CONFIG worker:1 of 2, coordinator c:1"},
      {"slurm", "Slurm worker:0 of 2, coordinator c:1"},
      {"kubernetes", "Kubernetes worker:1 of 2, coordinator c:1"},
      {"discovery", "the coordinator of 0, coordinator c:1"},
      {"alone", "nobody of 0"},
  };
  for (const auto& [choice, told] : expected) {
    all["EVERSTEP_RESOLVER"] = choice;
    EXPECT_EQ(Resolve(all, "train-1"), told);
  }
  all["EVERSTEP_RESOLVER"] = "list";
  EXPECT_EQ(Resolve(all, "n2"), "EVERSTEP_CLUSTER_WORKERS worker:1 of 3, coordinator c:1");
  all["EVERSTEP_RESOLVER"] = "k8s";
  ExpectRefusal(ResolvePlace(Around(all)),
                "EV501: EVERSTEP_RESOLVER: 'k8s' is no resolver; set it to auto, tf_config, list, "
                "slurm, kubernetes, discovery or alone");
}

TEST(ResolvePlace, AChoiceThatSaysNothingIsRefused) {
  const std::pair<const char*, const char*> expected[] = {
      {"tf_config", "tf_config, but TF_CONFIG says nothing; set TF_CONFIG, with a cluster in it"},
      {"list",
       "list, but EVERSTEP_CLUSTER_WORKERS says nothing; set EVERSTEP_CLUSTER_WORKERS "
       "(h1:port,h2:port,...) or EVERSTEP_CLUSTER_CHIEF"},
      {"slurm", "slurm, but Slurm says nothing; set SLURM_STEP_NUM_TASKS, as srun does"},
      {"kubernetes",
       "kubernetes, but Kubernetes says nothing; set JOB_COMPLETION_INDEX, as Kubernetes does for "
       "`completionMode: Indexed`"},
      {"discovery",
       "discovery, but the coordinator says nothing; set EVERSTEP_COORDINATOR (host:port)"},
  };
  for (const auto& [choice, message] : expected) {
    ExpectRefusal(ResolvePlace(Around({{"EVERSTEP_RESOLVER", choice}})),
                  std::string("EV502: EVERSTEP_RESOLVER: is ") + message +
                      ", or set EVERSTEP_RESOLVER to auto");
  }
  EXPECT_EQ(Resolve({{"EVERSTEP_RESOLVER", "slurm"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
            "nobody of 0");
}

TEST(ResolvePlace, AloneSaysWhatItPassesOver) {
  const auto place =
      ResolvePlace(Around({{"EVERSTEP_RESOLVER", "alone"}, {"EVERSTEP_COORDINATOR", "c:1"}}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(place->notes,
              ElementsAre("EVERSTEP_RESOLVER is alone: EVERSTEP_COORDINATOR is not used"));
}

TEST(ResolvePlace, AnIndexWithoutASizeNeedsACoordinator) {
  const Variables pod{{"JOB_COMPLETION_INDEX", "1"}};
  EXPECT_THAT(Resolve(pod), testing::StartsWith("EV531: EVERSTEP_CLUSTER_SIZE: is not set"));
  Variables forced = pod;
  forced["EVERSTEP_RESOLVER"] = "kubernetes";
  forced["EVERSTEP_COORDINATOR"] = "c:1";
  EXPECT_THAT(Resolve(forced), testing::StartsWith("EV531: EVERSTEP_CLUSTER_SIZE: is not set"));
  forced["EVERSTEP_RESOLVER"] = "auto";
  EXPECT_EQ(Resolve(forced), "the coordinator of 0, coordinator c:1");
  forced["EVERSTEP_RESOLVER"] = "alone";
  EXPECT_EQ(Resolve(forced), "nobody of 0");
}

TEST(ResolvePlace, AJobOfSlurmWithoutSrunIsAloneAndSaysSo) {
  const auto place = ResolvePlace(Around({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->source, PlaceSource::kAlone);
  EXPECT_THAT(place->notes, ElementsAre("SLURM_NTASKS is 4, but srun did not start this process: "
                                        "it trains alone"));
}

TEST(ResolvePlace, ATaskWithoutAClusterWouldTrainAlone) {
  ExpectRefusal(
      ResolvePlace(Around({{"EVERSTEP_TASK", "worker:1"}})),
      "EV506: EVERSTEP_TASK: is worker:1, but nothing says of which cluster: this process "
      "would train alone; set EVERSTEP_CLUSTER_WORKERS, TF_CONFIG or "
      "EVERSTEP_COORDINATOR; or unset EVERSTEP_TASK");
}

TEST(ResolvePlace, WhoIsOneOfSeveralIsNeverAloneForWantOfTheRest) {
  const std::pair<Variables, const char*> cases[] = {
      {{{"EVERSTEP_WORKERS", "4"}},
       "EV507: EVERSTEP_WORKERS: is 4, but nothing says where the others are: this process would "
       "train alone; set EVERSTEP_COORDINATOR, TF_CONFIG or EVERSTEP_CLUSTER_WORKERS, or start the "
       "job by `everstep run`; EVERSTEP_RESOLVER=alone if that is meant"},
      {{{"EVERSTEP_CLUSTER_SIZE", "4"}, {"EVERSTEP_SERVICE", "train"}},
       "EV507: EVERSTEP_CLUSTER_SIZE: is 4, but nothing says where the others are: this process "
       "would train alone; set EVERSTEP_COORDINATOR, TF_CONFIG or EVERSTEP_CLUSTER_WORKERS, or "
       "JOB_COMPLETION_INDEX as an Indexed Job does; EVERSTEP_RESOLVER=alone if that is meant"},
      {{{"EVERSTEP_COORDINATOR", ""}},
       "EV507: EVERSTEP_COORDINATOR: is set but says nothing: this process would train alone; set "
       "it to HOST:PORT, or unset it; EVERSTEP_RESOLVER=alone if that is meant"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}},
       "EV507: SLURM_PROCID: is that of a step of several tasks, but SLURM_STEP_NUM_TASKS does not "
       "say so: this process would train alone; start it by srun, which sets them all; "
       "EVERSTEP_RESOLVER=alone if that is meant"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "n[1-4]"}},
       "EV507: SLURM_STEP_NODELIST: is that of a step of several tasks, but SLURM_STEP_NUM_TASKS "
       "does not say so: this process would train alone; start it by srun, which sets them all; "
       "EVERSTEP_RESOLVER=alone if that is meant"},
  };
  for (const auto& [variables, text] : cases) {
    EXPECT_EQ(Resolve(variables), text);
    Variables alone = variables;
    alone["EVERSTEP_RESOLVER"] = "alone";
    EXPECT_EQ(Resolve(alone), "nobody of 0");
  }
}

TEST(ResolvePlace, ATfConfigWithoutAClusterClaimsItsTaskOfTheCoordinator) {
  const Variables bare{{"TF_CONFIG", R"({"task":{"type":"worker","index":1}})"}};
  EXPECT_EQ(Resolve(bare),
            "EV506: TF_CONFIG, task: is worker:1, but nothing says of which cluster: this process "
            "would train alone; add the cluster to it, or set EVERSTEP_COORDINATOR; or unset "
            "TF_CONFIG");
  Variables more = bare;
  more["EVERSTEP_COORDINATOR"] = "c:1";
  EXPECT_EQ(Resolve(more), "the coordinator worker:1 of 0, coordinator c:1");
  more["EVERSTEP_TASK"] = "worker:2";
  EXPECT_EQ(Resolve(more), "the coordinator worker:2 of 0, coordinator c:1");
}

TEST(ResolvePlace, ATaskThatContradictsIsRefused) {
  EXPECT_EQ(Resolve({{"TF_CONFIG", kTwo}, {"EVERSTEP_TASK", "worker:1"}}),
            "TF_CONFIG worker:1 of 2, coordinator n1:29700");
  ExpectRefusal(ResolvePlace(Around({{"TF_CONFIG", kTwo}, {"EVERSTEP_TASK", "worker:0"}})),
                "EV505: EVERSTEP_TASK: is worker:0, but by TF_CONFIG this process is worker:1; "
                "unset EVERSTEP_TASK, or choose with EVERSTEP_RESOLVER");
}

std::string List(const std::string& workers, Variables more = {}, const std::string& host = "n2") {
  more["EVERSTEP_CLUSTER_WORKERS"] = workers;
  return Resolve(more, host);
}

TEST(ClusterList, TheTaskIsSaid) {
  EXPECT_EQ(List("a:1, b:1", {{"EVERSTEP_TASK", "worker:1"}}),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator a:29700");
  EXPECT_EQ(List("a:1,b:1", {{"EVERSTEP_TASK", "chief:0"}, {"EVERSTEP_CLUSTER_CHIEF", "c:1"}}),
            "EVERSTEP_CLUSTER_WORKERS chief:0 of 3, coordinator c:29700 here");
  EXPECT_EQ(Resolve({{"EVERSTEP_CLUSTER_CHIEF", "n2:1"}}), "EVERSTEP_CLUSTER_WORKERS chief:0 of 1");
}

TEST(ClusterList, OrIsThatOfThisHostsAddress) {
  EXPECT_EQ(List("10.0.0.1:1,10.0.0.2:1"),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator 10.0.0.1:29700");
  EXPECT_EQ(List("[fd00::1]:1,[FD00:0::2]:1"),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator [fd00::1]:29700");
  EXPECT_EQ(List("n1.site:1,N2.site:1"),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator n1.site:29700");
  EXPECT_EQ(List("n1:1,n2:1", {}, "n2.site"),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator n1:29700");
  EXPECT_EQ(List("n2.a:1,n2.b:1", {}, "n2.b"),
            "EVERSTEP_CLUSTER_WORKERS worker:1 of 2, coordinator n2.a:29700");
}

TEST(ClusterList, NoneOrSeveralOfThisHostAreRefused) {
  EXPECT_EQ(List("a:1,b:1"),
            "EV512: EVERSTEP_TASK: is not set, and none of the cluster's addresses is of this host "
            "(n2, 10.0.0.2, fd00::2, fe80::2%eth0); set EVERSTEP_TASK, e.g. worker:1, or list this "
            "host's address");
  EXPECT_EQ(List("localhost:1,127.0.0.1:2,a:1"),
            "EV513: EVERSTEP_TASK: is not set, and several of the cluster's addresses are of this "
            "host: worker:0 (localhost:1), worker:1 (127.0.0.1:2); give each process its own, e.g. "
            "EVERSTEP_TASK=worker:0");
}

TEST(ClusterList, BadAddressesAndTasksAreNamed) {
  for (const char* address : {"", "b", "b:0", "fd00::2:1", "b:99999"}) {
    EXPECT_EQ(List(std::string("a:1,") + address),
              std::string("EV510: EVERSTEP_CLUSTER_WORKERS[1]: '") + address +
                  "' is not HOST:PORT or [IPV6]:PORT with a port from 1 to 65535; write e.g. "
                  "10.0.0.1:2222,10.0.0.2:2222");
  }
  EXPECT_EQ(List("a:1", {{"EVERSTEP_CLUSTER_CHIEF", "b:1,c:1"}}),
            "EV510: EVERSTEP_CLUSTER_CHIEF: has 2 addresses; a cluster has one chief; list the "
            "others as workers");
  EXPECT_EQ(
      List("a:1,b:1,a:1"),
      "EV511: EVERSTEP_CLUSTER_WORKERS: worker:0 and worker:2 are both at a:1; give each task "
      "an address of its own");
  EXPECT_EQ(
      List("a:1,b:1", {{"EVERSTEP_TASK", "worker:2"}}),
      "EV505: EVERSTEP_TASK: is worker:2: index 2 but worker has 2 tasks (0-1); name a task of "
      "EVERSTEP_CLUSTER_WORKERS, counting from 0");
  EXPECT_EQ(List("a:1,b:1", {{"EVERSTEP_TASK", "1"}}),
            "EV505: EVERSTEP_TASK: '1' is not a task; write it as type:index, e.g. worker:0");
  EXPECT_EQ(
      List("a:1,b:1", {{"EVERSTEP_TASK", "master:0"}}),
      "EV505: EVERSTEP_TASK: 'master:0' is not a task; write it as type:index, e.g. worker:0");
}

TEST(RealSurroundings, AreThisHosts) {
  const Surroundings around = RealSurroundings();
  EXPECT_NE(around.host_name, "");
  EXPECT_FALSE(around.interfaces.empty());
  EXPECT_FALSE(around.environment("PATH").value_or("").empty());
}

}  // namespace
}  // namespace everstep
