// cluster: tests of the place of a pod of an Indexed Job.
#include "everstep/cluster/kubernetes.h"

#include "everstep/cluster/resolver_test_util.h"

namespace everstep {
namespace {

constexpr char kHosts[] =
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "fe00::0\tip6-localnet\n"
    "10.1.2.2\tother-1.other.ns.svc.cluster.local\tother-1\n"
    "10.1.2.3\ttrain-1.svc1.ns.svc.example.org\ttrain-1\n";

auto Read(Variables more, const std::string& host = "train-1", const std::string& hosts = kHosts) {
  Variables variables{{"JOB_COMPLETION_INDEX", "1"}, {"EVERSTEP_CLUSTER_SIZE", "2"}};
  for (auto& [name, value] : more) variables[name] = value;
  return ReadIndexedJob(ReaderOf(variables), host, hosts);
}

std::vector<std::string> Workers(const absl::StatusOr<std::optional<ToldPlace>>& told) {
  if (!told.ok()) return {std::string(told.status().message())};
  if (!told->has_value()) return {"nothing"};
  return (*told)->cluster.jobs.at("worker");
}

TEST(IndexedJob, ServiceAndNamespaceAreThoseOfThePodsOwnLine) {
  const auto told = Read({});
  EXPECT_THAT(Workers(told),
              testing::ElementsAre("train-0.svc1.ns.svc:2222", "train-1.svc1.ns.svc:2222"));
  EXPECT_EQ((*told)->task, (Task{"worker", 1}));
}

TEST(IndexedJob, OrAreSaid) {
  EXPECT_THAT(Workers(Read({{"EVERSTEP_SERVICE", "a"}})),
              testing::ElementsAre("train-0.a:2222", "train-1.a:2222"));
  EXPECT_THAT(Workers(Read({{"EVERSTEP_SERVICE", "a.b"}, {"EVERSTEP_CLUSTER_PORT", "80"}})),
              testing::ElementsAre("train-0.a.b.svc:80", "train-1.a.b.svc:80"));
  EXPECT_THAT(Workers(Read({{"EVERSTEP_SERVICE", "a.b.svc"}})),
              testing::ElementsAre("train-0.a.b.svc:2222", "train-1.a.b.svc:2222"));
  ExpectRefusal(Read({{"EVERSTEP_SERVICE", "a.b.svc.cluster.local"}}),
                "EV533: EVERSTEP_SERVICE: 'a.b.svc.cluster.local' is not a Service's name; write "
                "<service> or <service>.<namespace>, without the cluster's domain");
}

TEST(IndexedJob, TheJobsNameMayHoldDashesAndTheHostsAName) {
  EXPECT_THAT(Workers(Read({{"EVERSTEP_SERVICE", "a"}}, "my-job-7-1.a.ns.svc.cluster.local")),
              testing::ElementsAre("my-job-7-0.a:2222", "my-job-7-1.a:2222"));
  EXPECT_THAT(Workers(Read({}, "train-1.svc1.ns.svc.example.org")),
              testing::ElementsAre("train-0.svc1.ns.svc:2222", "train-1.svc1.ns.svc:2222"));
}

TEST(IndexedJob, WithoutAnIndexOrAloneSaysNothing) {
  EXPECT_EQ(ReadIndexedJob(ReaderOf({{"EVERSTEP_CLUSTER_SIZE", "2"}}), "h", "")->has_value(),
            false);
  EXPECT_THAT(Workers(Read({{"JOB_COMPLETION_INDEX", "0"}, {"EVERSTEP_CLUSTER_SIZE", "1"}})),
              testing::ElementsAre("nothing"));
}

TEST(IndexedJob, WithoutASizeItWouldTrainAlone) {
  ExpectRefusal(
      Read({{"EVERSTEP_CLUSTER_SIZE", ""}}),
      "EV531: EVERSTEP_CLUSTER_SIZE: is not set, but JOB_COMPLETION_INDEX is 1: this pod "
      "has others beside it, and Kubernetes does not tell how many; it would train alone; "
      "set it to the Job's `completions`; or EVERSTEP_RESOLVER=alone, if each pod is to "
      "train alone");
}

TEST(IndexedJob, AnIndexThatCannotBeIsRefused) {
  ExpectRefusal(
      Read({{"JOB_COMPLETION_INDEX", "2"}}),
      "EV530: JOB_COMPLETION_INDEX: is 2, but EVERSTEP_CLUSTER_SIZE is 2 (indices 0 to 1); "
      "set EVERSTEP_CLUSTER_SIZE to the Job's `completions`");
  ExpectRefusal(
      Read({{"JOB_COMPLETION_INDEX", "-1"}}),
      "EV530: JOB_COMPLETION_INDEX: '-1' is not an index; leave it as Kubernetes sets it");
}

TEST(IndexedJob, AHostNameThatContradictsTheIndexIsRefused) {
  for (const char* host : {"train-2", "train-11", "node7", "-1", "1"}) {
    ExpectRefusal(
        Read({}, host),
        std::string("EV532: JOB_COMPLETION_INDEX: is 1, but the host name '") + host +
            "' does not end in '-1', as that of a pod of an Indexed Job does; set neither "
            "`hostname:` nor `hostNetwork:` in the pod template nor JOB_COMPLETION_INDEX by hand, "
            "or "
            "say the cluster with TF_CONFIG");
  }
}

TEST(IndexedJob, WithoutAServiceThePodsHaveNoNames) {
  for (const char* hosts : {"", "10.1.2.3 train-1\n", "10.1.2.3 train-0.a.ns.svc.c.l\n",
                            "10.1.2.3 train-1.a.ns.pod.c.l\n", "# 10.1.2.3 train-1.a.ns.svc.c.l\n",
                            "train-1.a.ns.svc.c.l\n"}) {
    ExpectRefusal(Read({}, "train-1", hosts),
                  "EV533: EVERSTEP_SERVICE: is not set, and /etc/hosts has no line of "
                  "train-1.<service>.<namespace>.svc: without a Service the pods have no names by "
                  "which to find each other; give the pod template `subdomain:` with the name of a "
                  "headless Service, or set EVERSTEP_SERVICE to <service>.<namespace>");
  }
}

}  // namespace
}  // namespace everstep
