// cluster: tests of TF_CONFIG.
#include "everstep/cluster/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TfConfig Read(const std::string& text) {
  auto config = ReadTfConfig(text);
  EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  return config.ok() && config->has_value() ? **config : TfConfig();
}

std::string Refusal(const std::string& text) {
  const absl::Status status = ReadTfConfig(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_THAT(std::string(status.message()), HasSubstr("TF_CONFIG"));
  return std::string(status.message());
}

std::vector<std::string> Messages(const std::string& text, ExamineOptions options = {}) {
  std::vector<std::string> messages;
  for (const Finding& finding : ExamineTfConfig(text, options).findings) {
    messages.push_back(finding.ToString());
  }
  return messages;
}

std::vector<std::string> Codes(const std::string& text, StrategyKind strategy) {
  std::vector<std::string> codes;
  ExamineOptions options;
  options.strategy = strategy;
  const TfConfigReport report = ExamineTfConfig(text, options);
  for (const Finding& finding : report.findings) codes.push_back(finding.code);
  return codes;
}

// A TF_CONFIG of this cluster and task.
std::string Text(const std::string& cluster, const std::string& type = "worker", int index = 0) {
  return absl::StrCat("{\"cluster\":{", cluster, "},\"task\":{\"type\":\"", type,
                      "\",\"index\":", index, "}}");
}

constexpr char kTwo[] = R"("worker":["a:1","b:2"])";
constexpr auto kUnknown = StrategyKind::kUnknown;
constexpr auto kMirrored = StrategyKind::kMultiWorkerMirrored;
constexpr auto kServers = StrategyKind::kParameterServer;

TEST(WriteTfConfig, IsCanonical) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"127.0.0.1:29710", "[::1]:29711"}}, {"chief", {"a:1"}}, {"ps", {}}};
  EXPECT_EQ(WriteTfConfig(cluster, {"worker", 1}),
            R"({"cluster":{"chief":["a:1"],"worker":["127.0.0.1:29710","[::1]:29711"]},)"
            R"("task":{"type":"worker","index":1}})");
}

TEST(WriteTfConfig, ReadsBack) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"a:1", "[fd00::1]:2", "c:3"}}, {"evaluator", {"e:9"}}};
  const TfConfig read = Read(WriteTfConfig(cluster, {"worker", 2}));
  EXPECT_EQ(read.cluster.jobs, cluster.jobs);
  EXPECT_EQ(read.task, (Task{"worker", 2}));
  EXPECT_EQ(read.NumTrainers(), 3);
}

TEST(WriteTfConfig, TakesAnyBytes) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"a\xff:1"}}};
  EXPECT_THAT(WriteTfConfig(cluster, {"worker", 0}), HasSubstr("worker"));
}

TEST(WriteCluster, IsTheTrainersAlone) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"b:1", "a:1"}}, {"chief", {"c:1"}}, {"ps", {"p:1"}}};
  EXPECT_EQ(WriteCluster(cluster), R"({"cluster":{"chief":["c:1"],"worker":["b:1","a:1"]}})");
  cluster.jobs["evaluator"] = {"e:1"};
  cluster.jobs.erase("ps");
  EXPECT_EQ(WriteCluster(cluster), R"({"cluster":{"chief":["c:1"],"worker":["b:1","a:1"]}})");
  EXPECT_EQ(WriteCluster(ClusterSpec()), R"({"cluster":{}})");
}

TEST(ReadTfConfig, UnsetIsAloneAndEmptyIsAnError) {
  EXPECT_FALSE(ReadTfConfig(std::nullopt)->has_value());
  EXPECT_THAT(ExamineTfConfig(std::nullopt).findings, IsEmpty());
  EXPECT_THAT(Refusal(""), HasSubstr("empty"));
  EXPECT_THAT(Refusal("  "), HasSubstr("empty"));
}

TEST(ReadTfConfig, WithoutAClusterIsAlone) {
  EXPECT_TRUE(Read("{}").cluster.jobs.empty());
  EXPECT_TRUE(Read(Text("")).cluster.jobs.empty());
}

TEST(ReadTfConfig, IgnoresWhatTensorFlowIgnores) {
  const std::string text =
      absl::StrCat("{\"cluster\":{", kTwo, R"(},"task":{"type":"worker","index":1},)",
                   R"("environment":"cloud","rpc_layer":"grpc","service":{"x":[1.5,true,null]}})");
  EXPECT_EQ(Read(text).task, (Task{"worker", 1}));
  EXPECT_THAT(Messages(text), IsEmpty());
}

TEST(ReadTfConfig, SaysTheFirstErrorAndPassesWarningsBy) {
  EXPECT_THAT(Refusal(R"({"tasks":{},"cluster":{"worker":["a","b"]},"task":{}})"),
              HasSubstr("EV206: TF_CONFIG, cluster.worker[0] (line 1, column 34)"));
  EXPECT_EQ(
      Read(R"({"tasks":{},"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":"0"}})")
          .task,
      (Task{"worker", 0}));
}

TEST(ReadTfConfig, EmptyTaskTypesAreLeftOut) {
  EXPECT_EQ(Read(Text(R"("worker":["a:1"],"evaluator":[])")).cluster.jobs.size(), 1u);
}

TEST(ReadTfConfig, AnEvaluatorMayStandApart) {
  EXPECT_EQ(Read(Text(kTwo, "evaluator")).task, (Task{"evaluator", 0}));
}

TEST(ReadTfConfig, AllOnThisHostIsFine) {
  EXPECT_THAT(Messages(Text(R"("worker":["localhost:1","127.0.0.1:2","[::1]:3"])")), IsEmpty());
}

TEST(ExamineTfConfig, SaysLinesAndColumns) {
  const std::string text =
      "{\n  \"cluster\": {\n    \"worker\": [\"a:1\",\n\t\"b\"]\n  },\n  "
      "\"task\": {\"type\": \"worker\",\n           \"index\": 2}\n}\n";
  EXPECT_THAT(Messages(text),
              ElementsAre("EV206: TF_CONFIG, cluster.worker[1] (line 4, column 2): 'b' has no "
                          "port; write \"host:port\", e.g. :2222",
                          "EV305: TF_CONFIG, task.index (line 7, column 21): index 2, but worker "
                          "has 2 tasks (0 to 1); give each process its own index"));
}

TEST(ExamineTfConfig, TheLastOfRepeatedKeysCountsAsInTensorFlow) {
  const std::string text =
      R"({"cluster":{"worker":["x"],"worker":["a:1"]},"task":{"type":"ps","type":"worker","index":0}})";
  EXPECT_EQ(Read(text).cluster.jobs.at("worker"), (std::vector<std::string>{"a:1"}));
  EXPECT_THAT(Messages(text),
              ElementsAre(HasSubstr("EV105: TF_CONFIG, cluster.worker (line 1, column 13)"),
                          HasSubstr("EV105: TF_CONFIG, task.type (line 1, column 54)")));
}

TEST(ExamineTfConfig, AParameterServerJobNeedsItsRoles) {
  const std::string whole = R"("chief":["c:1"],"ps":["p:1"],"worker":["w:1"])";
  for (const char* type : {"chief", "ps", "worker"}) {
    EXPECT_THAT(Codes(Text(whole, type), kServers), IsEmpty());
    EXPECT_THAT(Codes(Text(whole, type), kUnknown), IsEmpty());
    EXPECT_THAT(Codes(Text(whole, type), kMirrored), ElementsAre("EV315"));
  }
  EXPECT_THAT(Codes(Text(R"("ps":["p:1"],"worker":["w:1"])"), kServers), ElementsAre("EV316"));
  EXPECT_THAT(Codes(Text(R"("ps":["p:1"],"worker":["w:1"])"), kUnknown), ElementsAre("EV319"));
  EXPECT_THAT(Codes(Text(R"("ps":["p:1"],"chief":["w:1"])", "chief"), kServers),
              ElementsAre("EV317"));
  EXPECT_THAT(Codes(Text(R"("worker":["p:1"],"chief":["w:1"])"), kServers), ElementsAre("EV318"));
}

TEST(ExamineTfConfig, WhatIsWrongWithRolesIsSaidInTheseWords) {
  ExamineOptions servers{kServers, nullptr}, mirrored{kMirrored, nullptr};
  EXPECT_THAT(
      Messages(Text(R"("worker":["w:1"])"), servers),
      ElementsAre("EV316: TF_CONFIG, cluster (line 1, column 13): a parameter-server job without "
                  "chief: TensorFlow would add one at localhost; add \"chief\": [\"host:port\"]",
                  "EV318: TF_CONFIG, cluster (line 1, column 13): a parameter-server job without "
                  "ps; add \"ps\", or use MultiWorkerMirroredStrategy"));
  EXPECT_THAT(Messages(Text(R"("chief":["w:1"],"ps":["p:1"])", "chief"), servers),
              ElementsAre("EV317: TF_CONFIG, cluster (line 1, column 13): a parameter-server job "
                          "without workers; add \"worker\""));
  EXPECT_THAT(Messages(Text(R"("ps":["p:1"],"worker":["w:1"])"), mirrored),
              ElementsAre("EV315: TF_CONFIG, cluster.ps (line 1, column 13): "
                          "MultiWorkerMirroredStrategy would wait for ps:0, which takes no part in "
                          "it; leave ps out, or use ParameterServerStrategy"));
  EXPECT_THAT(
      Messages(Text(R"("chief":["c:1"],"evaluator":["e:1"],"ps":["p:1"],"worker":["w:1"])"),
               servers),
      ElementsAre("EV312: TF_CONFIG, cluster.evaluator (line 1, column 29): the coordinator would "
                  "connect to the evaluator, which runs no server; leave it out here, and name it "
                  "in the evaluator's own cluster only"));
  EXPECT_THAT(Messages(Text(kTwo, "evaluator"), mirrored),
              ElementsAre("EV314: TF_CONFIG, task (line 1, column 44): is the evaluator, which its "
                          "own cluster does not name; add \"evaluator\": [\"host:port\"] to this "
                          "process's cluster"));
}

TEST(ExamineTfConfig, AnEvaluatorHasAClusterOfItsOwn) {
  const std::string own = R"("evaluator":["e:1"])";
  for (const StrategyKind strategy : {kUnknown, kMirrored, kServers}) {
    EXPECT_THAT(Codes(Text(own, "evaluator"), strategy), IsEmpty());
  }
  EXPECT_THAT(Codes(Text(absl::StrCat(own, ",", kTwo)), kMirrored), ElementsAre("EV311"));
  EXPECT_THAT(Codes(Text(absl::StrCat(own, ",", kTwo)), kUnknown), ElementsAre("EV311"));
  EXPECT_THAT(Codes(Text(absl::StrCat(own, ",", kTwo), "evaluator"), kMirrored), IsEmpty());
  EXPECT_THAT(Codes(Text(kTwo, "evaluator"), kServers), ElementsAre("EV313"));
}

TEST(ExamineTfConfig, LimitsHold) {
  EXPECT_THAT(Messages("{\"a\":\"" + std::string(1 << 20, 'x') + "\"}"),
              ElementsAre("EV104: TF_CONFIG (line 1, column 1048577): 1048584 bytes, more than "
                          "1048576; no cluster needs so many"));
  std::string many;
  for (int i = 0; i < 100001; ++i) absl::StrAppend(&many, i > 0 ? "," : "", "\"a:1\"");
  EXPECT_THAT(Messages(Text(absl::StrCat("\"worker\":[", many, "]"))),
              ElementsAre("EV104: TF_CONFIG, cluster.worker (line 1, column 22): 100001 tasks, "
                          "more than 100000; look at what wrote it"));
  EXPECT_THAT(Refusal(std::string(100000, '[')), HasSubstr("deeper than 32"));
  EXPECT_THAT(Refusal(std::string("{}\0{}", 5)), HasSubstr("a zero byte"));
}

TEST(ExamineTfConfig, AfterAHundredFindingsTheOthersAreCounted) {
  std::string many;
  for (int i = 0; i < 150; ++i) absl::StrAppend(&many, i > 0 ? "," : "", "\"a\"");
  const std::vector<std::string> messages = Messages(Text(absl::StrCat("\"worker\":[", many, "]")));
  ASSERT_EQ(messages.size(), 101u);
  EXPECT_THAT(messages.back(), HasSubstr("EV118: TF_CONFIG (line 1, column 1): 50 more findings"));
}

class Proxies : public testing::Test {
 protected:
  std::vector<std::string> Find(const std::string& cluster) {
    ExamineOptions options;
    options.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = set_.find(name);
      return found == set_.end() ? std::optional<std::string>() : found->second;
    };
    return Messages(Text(cluster), options);
  }
  std::map<std::string, std::string> set_;
};

TEST_F(Proxies, AreSaidWithWhatToSet) {
  set_["https_proxy"] = "http://me:hunter2@proxy:3128";
  EXPECT_THAT(Find(kTwo),
              ElementsAre("EV401: https_proxy: a proxy is set (https_proxy), and no_proxy does not "
                          "except 2 hosts of the cluster; set no_proxy=a,b for every task"));
  set_["no_proxy"] = ".corp, a";
  set_["ALL_PROXY"] = "x";
  EXPECT_THAT(Find(kTwo), ElementsAre("EV401: https_proxy: a proxy is set (https_proxy, "
                                      "ALL_PROXY), and no_proxy does not except a host of the "
                                      "cluster; set no_proxy=.corp, a,b for every task"));
}

TEST_F(Proxies, ArePassedByWhenAllHostsAreExcepted) {
  for (const char* name :
       {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "HTTP_PROXY", "GRPC_PROXY"}) {
    set_ = {{name, "http://p:1"}, {"no_proxy", "A,b"}};
    EXPECT_THAT(Find(kTwo), IsEmpty());
    set_["no_proxy"] = "a,c";
    EXPECT_THAT(Find(kTwo), ElementsAre(HasSubstr("set no_proxy=a,c,b")));
    set_["no_grpc_proxy"] = "a,b";  // gRPC then does not look at the other
    EXPECT_THAT(Find(kTwo), IsEmpty());
  }
  set_ = {{"http_proxy", "http://p:1"}, {"no_proxy", ".svc"}};
  EXPECT_THAT(Find(R"("worker":["a.svc:1","b.svc:1"])"), IsEmpty());
  EXPECT_THAT(Find(R"("worker":["a:1"])"), IsEmpty());
  EXPECT_THAT(Find(R"("worker":["localhost:1","localhost:2"])"),
              ElementsAre(HasSubstr("set no_proxy=.svc,localhost ")));
  set_ = {};
  EXPECT_THAT(Find(kTwo), IsEmpty());
}

TEST(Secrets, AreNamedAndNeverShown) {
  const std::string secrets[] = {"me:hunter2@host:1",
                                 "grpc://me:hunter2@host:1",
                                 "token=hunter2",
                                 "x?api_key = hunter2",
                                 "PASSWORD=hunter2",
                                 "Bearer hunter2hunter2",
                                 "AKIAHUNTER2HUNTER2",
                                 "ghp_hunter2hunter2hunter2",
                                 "eyJhunter2hunter2hunter2",
                                 "-----BEGIN KEY----hunter2",
                                 "hunter2hunter2hunter2hunter2hunter2"};
  for (const std::string& secret : secrets) {
    const std::string quoted = absl::StrCat("\"", secret, "\"");
    for (const std::string& text :
         {absl::StrCat("{\"x\":[", quoted, "]}"), absl::StrCat("{", quoted, ":1,", quoted, ":2}"),
          Text(absl::StrCat("\"worker\":[\"a:1\",", quoted, "]")),
          Text(absl::StrCat(quoted, ":[\"a:1\"]")),
          Text(absl::StrCat("\"worker\":{", quoted, ":\"a:1\"}")),
          absl::StrCat("{\"task\":{\"type\":", quoted, ",\"index\":", quoted, "}}"),
          absl::StrCat("{\"rpc_layer\":", quoted, "}"), absl::StrCat("{\"x\": ", quoted),
          absl::StrCat("{\"x\": ", secret, "}"), secret}) {
      for (const std::string& message : Messages(text)) {
        EXPECT_THAT(message, Not(HasSubstr("hunter2"))) << text;
        EXPECT_THAT(message, Not(HasSubstr("HUNTER2"))) << text;
      }
    }
    EXPECT_THAT(Messages(absl::StrCat("{\"x\":[", quoted, "]}")),
                ElementsAre(HasSubstr("EV402: TF_CONFIG, x[0] (line 1, column 7)")));
  }
  EXPECT_THAT(Messages(R"({"session_master":"grpc://a:1","password":""})"), IsEmpty());
  EXPECT_THAT(Messages(R"({"my_password":"x"})"), ElementsAre(HasSubstr("EV402")));
}

TEST(Secrets, AreNotShownHoweverTheyAreWritten) {
  for (const char* secret :
       {"hunter2", "hunter2@a:1", "token:hunter2", "http://a:1/?key=hunter2", "a:1/hunter2",
        "grpc?pass=hunter2", "pw=hunter2", "u%3Ahunter2%40a:1", "fe80::1%hunter2", "hunter2:"}) {
    const std::string quoted = absl::StrCat("\"", secret, "\"");
    for (const std::string& text :
         {Text(absl::StrCat("\"worker\":[\"a:1\",", quoted, "]")),
          absl::StrCat("{\"rpc_layer\":", quoted, "}"),
          absl::StrCat("{\"task\":{\"type\":", quoted, ",\"index\":", quoted, "}}"),
          Text(absl::StrCat(quoted, ":[\"a:1\"]")),
          absl::StrCat("{", quoted, ":1,", quoted, ":2}")}) {
      const std::vector<std::string> messages = Messages(text);
      EXPECT_FALSE(messages.empty()) << text;
      for (const std::string& message : messages) EXPECT_THAT(message, Not(HasSubstr("hunter2")));
    }
  }
}

TEST(Secrets, PlainAddressesAndKnownWordsAreNone) {
  for (const char* text : {"a:1", "h0.svc:65536", "10.0.0.1", "[fd00::1]:2222", "fd00::1:2222"}) {
    EXPECT_TRUE(IsPlainAddress(text)) << text;
    EXPECT_EQ(Shown(text), absl::StrCat("'", text, "'"));
  }
  for (const char* text : {"", ":1", "hunter2", "a:hunter2", "a@b:1", "a:1/x", "a:12345678",
                           "dead:beefbeef", "0123456789abcdef01234:1"}) {
    EXPECT_FALSE(IsPlainAddress(text)) << text;
  }
  for (const char* text : {"rpc_layer", "workers", "grpc+verbs"}) EXPECT_TRUE(IsKnownWord(text));
  for (const char* text : {"", "hunter2", "worker_hunter2"}) EXPECT_FALSE(IsKnownWord(text));
  for (const char* key : {"pass", "my_auth", "private_key"}) EXPECT_TRUE(IsNameOfSecret(key));
  for (const char* key : {"author", "passengers"}) EXPECT_FALSE(IsNameOfSecret(key));
}

TEST(ExamineTfConfig, AMisspeltClusterWithoutARightOneIsAnError) {
  const std::string rest = R"(:{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0})";
  for (const char* key :
       {"clusters", "Cluster", "clutser", "cluser", "cluster_spec", "clusterSpec"}) {
    EXPECT_THAT(Codes(absl::StrCat("{\"", key, "\"", rest, "}"), kUnknown),
                testing::Contains("EV119"))
        << key;
    EXPECT_THAT(Codes(absl::StrCat("{\"cluster\":{},\"", key, "\"", rest, "}"), kUnknown),
                testing::Contains("EV119"));
    EXPECT_THAT(Codes(absl::StrCat("{\"", key, "\":1,\"cluster\"", rest, "}"), kUnknown),
                ElementsAre("EV110"));
  }
}

TEST(ExamineTfConfig, ATaskWithoutAClusterIsDoubtfulWhicheverItIs) {
  for (const char* text :
       {R"({"task":{"type":"worker","index":0}})", R"({"task":{"type":"chief","index":0}})",
        R"({"cluster":{},"task":{"type":"ps","index":3}})"}) {
    EXPECT_THAT(Codes(text, kUnknown), ElementsAre("EV320")) << text;
  }
}

TEST(Secrets, LongNamesOfHostsAreNone) {
  EXPECT_FALSE(LooksLikeSecret("worker-0.training-7f9c6d5b8-xk2lp.my-namespace.svc.cluster.local"));
  EXPECT_FALSE(LooksLikeSecret("task-training-of-something-long-0.disk-without-any-more.svc:2222"));
  EXPECT_FALSE(LooksLikeSecret("sk-learn-training-of-something-long-0:2222"));
  EXPECT_FALSE(LooksLikeSecret("token:2222"));
  EXPECT_FALSE(LooksLikeSecret("[fd00:1234:5678:9abc:def0:1234:5678:9abc]:2222"));
  EXPECT_THAT(Messages(Text(R"("worker":["ip-10-0-0-1.eu-central-1.compute.internal:2222"])")),
              IsEmpty());
}

}  // namespace
}  // namespace everstep
