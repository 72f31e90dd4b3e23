// cli: rules of config: what it makes, where it points, what it shows.
#include "everstep/cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/config_make.h"
#include "everstep/cli/verb_test.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

std::string NewDirectory() {
  std::string name = ::testing::TempDir() + "config-XXXXXX";
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  return name;
}

// Surroundings in which nothing is set but these.
Surroundings With(std::map<std::string, std::string> variables) {
  Surroundings surroundings;
  surroundings.environment = [variables](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
  surroundings.host_name = "h1";
  return surroundings;
}

ConfigRequest Request(std::string workers) {
  ConfigRequest request;
  request.workers = std::move(workers);
  request.environment = With({}).environment;
  return request;
}

std::vector<std::string> Lines(const MadeConfigs& made) {
  std::vector<std::string> lines;
  for (const MadeConfig& one : made.tasks) {
    lines.push_back(absl::StrCat(one.task.ToString(), " ", one.text));
  }
  return lines;
}

std::vector<std::string> Codes(const MadeConfigs& made) {
  std::vector<std::string> codes;
  for (const Finding& finding : made.findings) {
    if (finding.error) codes.push_back(finding.code);
  }
  return codes;
}

struct Checked {
  absl::Status status;
  std::string out;
};
Checked Check(const std::string& file, ShowOptions options = {}) {
  const ConfigText text = UnwrapConfig(file);
  std::ostringstream out;
  const absl::Status status = CheckConfig(&text, "file", options, With({}), out);
  return {status, out.str()};
}

TEST(ConfigMake, EachTaskHasTheClusterAndItsOwnPlaceInIt) {
  const auto made = MakeConfigs(Request("h1:1,h2:2"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(Lines(*made), ElementsAre(R"(worker:0 {"cluster":{"worker":["h1:1","h2:2"]},)"
                                        R"("task":{"type":"worker","index":0}})",
                                        R"(worker:1 {"cluster":{"worker":["h1:1","h2:2"]},)"
                                        R"("task":{"type":"worker","index":1}})"));
  EXPECT_THAT(made->findings, IsEmpty());
}

TEST(ConfigMake, TheEvaluatorIsInNoClusterButItsOwn) {
  ConfigRequest request = Request("h1,h2");
  request.chief = "h0";
  request.ps = "h3:7";
  request.evaluator = "h4";
  const auto made = MakeConfigs(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->findings, IsEmpty());
  ASSERT_EQ(made->tasks.size(), 5);
  const std::string trainers =
      R"({"cluster":{"chief":["h0:2222"],"ps":["h3:7"],"worker":["h1:2222","h2:2222"]},)";
  for (size_t i = 0; i < 4; ++i) EXPECT_THAT(made->tasks[i].text, HasSubstr(trainers));
  EXPECT_EQ(made->tasks[4].text,
            R"({"cluster":{"evaluator":["h4:2222"]},"task":{"type":"evaluator","index":0}})");
}

TEST(ConfigMake, AnAddressWithoutAPortGetsOneAndBracketsStay) {
  ConfigRequest request = Request(" h1 , [fd00::1] ,[fd00::2]:5");
  request.port = 9;
  const auto made = MakeConfigs(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->tasks[0].text, HasSubstr(R"(["h1:9","[fd00::1]:9","[fd00::2]:5"])"));
}

TEST(ConfigMake, ANumberIsNoListOfAddresses) {
  const auto made = MakeConfigs(Request("2"));
  EXPECT_EQ(made.status().message(),
            "--workers takes addresses, not 2; there are as many tasks as addresses: --workers "
            "host1:2222,host2:2222");
  EXPECT_EQ(ExitCodeFor(made.status()), kExitUsage);
  EXPECT_THAT(std::string(MakeConfigs(Request("a,,b")).status().message()),
              HasSubstr("there is an empty address"));
  EXPECT_THAT(std::string(MakeConfigs(Request("")).status().message()), HasSubstr("nobody trains"));
}

TEST(ConfigMake, WhatCannotWorkIsNotMade) {
  const auto codes = [](const ConfigRequest& request) {
    const auto made = MakeConfigs(request);
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_FALSE(made->ok());
    return Codes(*made).size();
  };
  EXPECT_EQ(codes(Request("h1:1,h1:1")), 1);         // the same twice
  EXPECT_EQ(codes(Request("h1:1,localhost:1")), 1);  // which host is that?
  EXPECT_EQ(codes(Request("h1:1,fd00::2:1")), 1);    // no brackets
  EXPECT_EQ(codes(Request("grpc://h1:1")), 1);
  EXPECT_EQ(codes(Request("h1:0")), 1);
  ConfigRequest mirrored = Request("h1,h2");
  mirrored.ps = "h3";
  mirrored.strategy = StrategyKind::kMultiWorkerMirrored;
  EXPECT_EQ(codes(mirrored), 1);
  ConfigRequest no_chief = Request("h1,h2");
  no_chief.ps = "h3";
  EXPECT_EQ(codes(no_chief), 1);
  ConfigRequest evaluator = Request("h1,h2");
  evaluator.evaluator = "h2";
  EXPECT_EQ(codes(evaluator), 1);
  ConfigRequest two = Request("h1");
  two.evaluator = "h2,h3";
  EXPECT_EQ(codes(two), 1);
}

TEST(ConfigMake, FilesAreThereWholeAndOthersAreNotReplaced) {
  FileSystem& fs = RealFileSystem();
  const std::string dir = JoinPath(NewDirectory(), "configs");
  const auto two = MakeConfigs(Request("h1,h2"));
  ASSERT_TRUE(two.ok());
  std::vector<std::string> strays;
  const auto paths = WriteConfigs(fs, two->tasks, dir, false, false, &strays);
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_THAT(*paths, ElementsAre(dir + "/worker-0.json", dir + "/worker-1.json"));
  EXPECT_EQ(ReadWholeFile(fs, paths->at(1)).value(), two->tasks[1].text + "\n");
  EXPECT_TRUE(WriteConfigs(fs, two->tasks, dir, false, false, &strays).ok());  // the same again
  EXPECT_THAT(strays, IsEmpty());

  const auto other = MakeConfigs(Request("h3"));
  const auto refused = WriteConfigs(fs, other->tasks, dir, false, false, &strays);
  EXPECT_EQ(
      refused.status().message(),
      dir + "/worker-0.json: it is there already and says something else; --force replaces it");
  EXPECT_EQ(ExitCodeFor(refused.status()), kExitConfiguration);
  EXPECT_TRUE(WriteConfigs(fs, other->tasks, dir, false, true, &strays).ok());
  EXPECT_THAT(strays, ElementsAre(dir + "/worker-1.json"));
  EXPECT_TRUE(WriteConfigs(fs, other->tasks, dir, true, false, &strays).ok());
  EXPECT_EQ(ReadWholeFile(fs, dir + "/worker-0.env").value(),
            "TF_CONFIG='" + other->tasks[0].text + "'\n");
  EXPECT_THAT(fs.List(dir).value(), ElementsAre("worker-0.env", "worker-0.json", "worker-1.json"));
}

TEST(ConfigMake, WhatOthersCallItIsAnswered) {
  EXPECT_THAT(ConfigMakeHint("--worker_hosts=a:1"), HasSubstr("it is --workers here"));
  EXPECT_THAT(ConfigMakeHint("--ps_hosts"), HasSubstr("it is --ps here"));
  EXPECT_THAT(ConfigMakeHint("--num-workers"), HasSubstr("as many tasks as addresses"));
  EXPECT_THAT(ConfigMakeHint("--job_name"), HasSubstr("--task worker:0"));
  EXPECT_EQ(ConfigMakeHint("--frobnicate"), "");
  EXPECT_EQ(ConfigMakeHint("-"), "");
}

TEST(ConfigText, EveryFormInWhichItIsKeptIsTakenOutOfItsFile) {
  const std::string json = R"({"a": 1})";
  EXPECT_EQ(UnwrapConfig(json).value, json);
  EXPECT_EQ(UnwrapConfig(json).note, "");
  EXPECT_EQ(UnwrapConfig("TF_CONFIG='" + json + "'\n").value, json);
  EXPECT_EQ(UnwrapConfig("# mine\n  export TF_CONFIG='" + json + "'; other\n").value, json);
  EXPECT_EQ(UnwrapConfig("export TF_CONFIG=\"{\\\"a\\\": 1}\"").value, json);
  EXPECT_EQ(UnwrapConfig("A=1\nTF_CONFIG=" + json + " \r\nB=2").value, json);  // docker's
  EXPECT_EQ(UnwrapConfig("TF_CONFIG='{\n\"a\": 1}'\n").value, "{\n\"a\": 1}");
  EXPECT_EQ(UnwrapConfig("TF_CONFIG='it'\\''s'").value, "it's");
  EXPECT_EQ(UnwrapConfig("TF_CONFIG=").value, "");
  EXPECT_EQ(UnwrapConfig("TF_CONFIG='no end").value, "no end");
  EXPECT_EQ(UnwrapConfig("\n\nTF_CONFIG='1'\nTF_CONFIG='2'\n").value, "2");
  EXPECT_EQ(UnwrapConfig("\n\nTF_CONFIG='1'\nTF_CONFIG='2'\n").note,
            "taken out of TF_CONFIG=... in line 4, the last of several");
  EXPECT_EQ(UnwrapConfig("").value, "");
}

TEST(ConfigText, APlaceIsThatInTheFileWithACaretBelow) {
  const ConfigText text = UnwrapConfig("A=1\nTF_CONFIG=\"{\n \\\"b\\\": 2}\"\n");
  ASSERT_EQ(text.value, "{\n \"b\": 2}");
  Finding finding;
  finding.line = 2;
  finding.column = 7;  // the 2
  std::vector<Finding> findings = {finding};
  MovePlaces(text, &findings);
  EXPECT_EQ(findings[0].line, 3);
  EXPECT_EQ(findings[0].column, 9);
  EXPECT_EQ(Excerpt(text, findings[0]), "     \\\"b\\\": 2}\n            ^\n");
  finding.line = 99;
  findings = {finding, Finding()};
  MovePlaces(text, &findings);  // beyond the end: the end
  EXPECT_EQ(findings[0].line, 3);
  EXPECT_EQ(Excerpt(text, findings[1]), "");
}

TEST(ConfigText, OfALongLineThatIsShownWhichIsAroundThePlace) {
  std::string value = "{\"a\":[";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&value, "\"h", i, ":1\",");
  Finding finding;
  finding.line = 1;
  finding.column = static_cast<int>(value.find("\"h50:")) + 1;
  const std::string shown = Excerpt(PlainConfig(value), finding);
  EXPECT_LT(shown.size(), 250);
  const size_t second = shown.find('\n') + 1;
  EXPECT_EQ(shown.substr(shown.find('^') - second, 5), "\"h50:");
}

TEST(ConfigText, WhatIsNoWordOfTfConfigIsMasked) {
  Finding finding;
  finding.code = "EV305";
  const std::string value = R"({"x1":"hunter2","cluster":{"worker":["a:1"]},"task":{"index":7}})";
  finding.line = 1;
  finding.column = static_cast<int>(value.find('7')) + 1;
  EXPECT_EQ(Excerpt(PlainConfig(value), finding),
            "    {\"...\":\"...\",\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"index\":7}}\n" +
                std::string(4 + value.find('7') - 3, ' ') + "^\n");
  finding.code = "EV102";  // not JSON: what is a string, and what is not?
  for (const char* text :
       {R"({"x1":1,"a":x})", R"({"h\u0075nter2":1,})", "hunter2", "$(echo hunter2)",
        "{'a':hunter2}", "{\"cluster\":\n\"hunter2\" \"worker\":1}", R"({"a":"b\"hunter2"})"}) {
    EXPECT_EQ(Excerpt(PlainConfig(text), {"EV102", true, "TF_CONFIG", 1, 1, "", ""}), "") << text;
  }
  EXPECT_NE(Excerpt(PlainConfig(R"({"cluster":{"worker":["a:1",]}})"),
                    {"EV102", true, "TF_CONFIG", 1, 9, "", ""}),
            "");
}

TEST(ConfigText, ALineThatMayHoldASecretIsNotShown) {
  Finding finding;
  finding.line = finding.column = 1;
  for (const char* value :
       {R"({"token": "x"})", R"(["user:pass@h:1"])", R"({"k":"0123456789abcdef0123"})",
        R"({"a":"Bearer x"})", R"({"a":"AKIA0000"})"}) {
    EXPECT_EQ(Excerpt(PlainConfig(value), finding), "") << value;
  }
  EXPECT_NE(Excerpt(PlainConfig(R"(["train-worker-0.train.default.svc:2222"])"), finding), "");
  // What stands beside the variable is nobody's business.
  const ConfigText text = UnwrapConfig("export TF_CONFIG='[1]' OTHER=hidden");
  finding.column = 19;
  EXPECT_EQ(Excerpt(text, finding), "    [1]\n    ^\n");
}

TEST(ConfigCheck, WhatIsRightIsSaidAndWhatIsWrongIs78) {
  const Checked right =
      Check(R"({"cluster":{"worker":["h1:1","h2:1"]},"task":{"type":"worker","index":1}})");
  EXPECT_TRUE(right.status.ok()) << right.status;
  EXPECT_EQ(right.out, "file: nothing is wrong\n");
  const Checked wrong =
      Check("{\"cluster\":{\"worker\":[\"h1:1\"]},\n\"task\":{\"type\":\"worker\",\"index\":3}}");
  EXPECT_EQ(ExitCodeFor(wrong.status), kExitConfiguration);
  EXPECT_EQ(wrong.status.message(), "file: 1 error");
  EXPECT_THAT(wrong.out, AllOf(HasSubstr("error EV"), HasSubstr("line 2"),
                               HasSubstr("    \"task\":{\"type\":\"worker\",\"index\":3}}\n" +
                                         std::string(36, ' ') + "^\n")));
}

TEST(ConfigCheck, AVariableThatIsNotSetIsNoError) {
  std::ostringstream out;
  EXPECT_TRUE(CheckConfig(nullptr, "TF_CONFIG", {}, With({}), out).ok());
  EXPECT_EQ(out.str(), "TF_CONFIG is not set: for TensorFlow this is a process alone\n");
}

TEST(ConfigCheck, AStrategyHasItsRulesAndStrictTakesNoWarnings) {
  const std::string ps =
      R"({"cluster":{"ps":["p:1"],"worker":["h1:1"]},"task":{"type":"worker","index":0}})";
  ShowOptions mirrored;
  mirrored.strategy = StrategyKind::kMultiWorkerMirrored;
  EXPECT_EQ(ExitCodeFor(Check(ps, mirrored).status), kExitConfiguration);
  const std::string text_index =
      R"({"cluster":{"worker":["h1:1"]},"task":{"type":"worker","index":"0"}})";
  const Checked warned = Check(text_index);
  EXPECT_TRUE(warned.status.ok());
  EXPECT_THAT(warned.out, AllOf(HasSubstr("warning EV"), HasSubstr("file: 1 warning\n")));
  ShowOptions strict;
  strict.strict = true;
  EXPECT_EQ(ExitCodeFor(Check(text_index, strict).status), kExitConfiguration);
}

TEST(ConfigCheck, ForScriptsItIsOneObject) {
  ShowOptions options;
  options.json = true;
  const Json json = Json::parse(
      Check("TF_CONFIG='{\"cluster\":{\"chief\":[\"h0:1\"],\"worker\":[\"h1:1\",\"h2:1\"]},"
            "\"task\":{\"type\":\"worker\",\"index\":1}}'",
            options)
          .out);
  EXPECT_EQ(json.at("ok"), true);
  EXPECT_EQ(json.at("source"), "file");
  EXPECT_EQ(json.at("chief"), "chief:0");
  EXPECT_EQ(json.at("is_chief"), false);
  EXPECT_EQ(json.at("rank"), 2);
  EXPECT_EQ(json.at("num_trainers"), 3);
  EXPECT_EQ(json.at("task"), Json::parse(R"({"type":"worker","index":1})"));
  EXPECT_EQ(json.at("cluster").at("worker").size(), 2);
  EXPECT_EQ(json.at("notes").size(), 1);
  const Json wrong = Json::parse(Check("{", options).out);
  EXPECT_EQ(wrong.at("ok"), false);
  EXPECT_EQ(wrong.at("findings").size(), 1);
  EXPECT_EQ(wrong.at("findings").at(0).at("error"), true);
  EXPECT_TRUE(wrong.at("cluster").is_null());
  EXPECT_TRUE(wrong.at("rank").is_null());
}

TEST(ConfigFacts, ChiefAndRankAreTensorFlows) {
  const auto facts = [](std::map<std::string, std::vector<std::string>> jobs, const Task& task) {
    TfConfig config;
    config.cluster.jobs = std::move(jobs);
    config.task = task;
    const PlaceFacts f = FactsOf(config);
    return absl::StrCat(f.chief, " ", f.is_chief, " ", f.rank, " ", f.num_trainers);
  };
  EXPECT_EQ(facts({{"worker", {"a", "b"}}}, {"worker", 0}), "worker:0 1 0 2");
  EXPECT_EQ(facts({{"worker", {"a", "b"}}}, {"worker", 1}), "worker:0 0 1 2");
  EXPECT_EQ(facts({{"chief", {"c"}}, {"worker", {"a"}}}, {"worker", 0}), "chief:0 0 1 2");
  EXPECT_EQ(facts({{"chief", {"c"}}, {"worker", {"a"}}}, {"chief", 0}), "chief:0 1 0 2");
  EXPECT_EQ(facts({{"chief", {"c"}}, {"ps", {"p"}}, {"worker", {"a"}}}, {"ps", 0}),
            "chief:0 0 -1 2");
  EXPECT_EQ(facts({{"evaluator", {"e"}}}, {"evaluator", 0}), "evaluator:0 1 0 0");
  EXPECT_EQ(FactsOf(TfConfig()).is_chief, true);
}

std::string Shown(std::map<std::string, std::string> variables, int code, bool json = false) {
  std::ostringstream out;
  ShowOptions options;
  options.json = json;
  Surroundings surroundings = With(std::move(variables));
  const absl::Status status = ShowConfig(options, surroundings, out);
  EXPECT_EQ(status.ok() ? 0 : ExitCodeFor(status), code) << status << out.str();
  return out.str();
}

TEST(ConfigShow, ThePlaceIsExplainedWithItsSourceAndItsCoordinator) {
  const std::string out =
      Shown({{"TF_CONFIG",
              R"({"cluster":{"worker":["h1:1","h2:1"]},"task":{"type":"worker","index":1}})"}},
            0);
  EXPECT_THAT(out, AllOf(HasSubstr("Source: TF_CONFIG\n"), HasSubstr("worker:1"),
                         HasSubstr("coordinator h1:29700, which worker:0's process starts"),
                         Not(HasSubstr("It amounts to"))));
}

TEST(ConfigShow, WhatComesFromElsewhereIsShownAsTheTfConfigThatItAmountsTo) {
  const std::map<std::string, std::string> list = {{"EVERSTEP_CLUSTER_WORKERS", "h1:1,h2:1"},
                                                   {"EVERSTEP_TASK", "worker:0"}};
  const std::string made =
      R"({"cluster":{"worker":["h1:1","h2:1"]},"task":{"type":"worker","index":0}})";
  EXPECT_THAT(Shown(list, 0), AllOf(HasSubstr("It amounts to TF_CONFIG='" + made + "'\n"),
                                    HasSubstr("which this process starts")));
  const Json json = Json::parse(Shown(list, 0, /*json=*/true));
  EXPECT_EQ(json.at("tf_config"), made);
  EXPECT_EQ(json.at("starts_coordinator"), true);
  EXPECT_EQ(json.at("rank"), 0);
}

TEST(ConfigShow, OfParameterServersNoCoordinatorOfOursIsTold) {
  const std::string cluster = R"({"cluster":{"chief":["h0:1"],"ps":["p:1"],"worker":["h1:1"]},)";
  for (const char* task :
       {R"("task":{"type":"ps","index":0}})", R"("task":{"type":"chief","index":0}})"}) {
    EXPECT_THAT(Shown({{"TF_CONFIG", cluster + task}}, 0), Not(HasSubstr("coordinator h0:29700")));
  }
}

TEST(ConfigShow, NothingSaidIsAProcessAloneAndACoordinatorAloneIsAsked) {
  EXPECT_THAT(Shown({}, 0), HasSubstr("this process trains alone"));
  EXPECT_THAT(Shown({{"EVERSTEP_COORDINATOR", "h:29700"}}, 0),
              AllOf(HasSubstr("the coordinator says which task this process is"),
                    HasSubstr("coordinator h:29700, which tells it its place")));
}

TEST(ConfigShow, WhatIsWrongIs78WithTheFindings) {
  EXPECT_THAT(Shown({{"TF_CONFIG", ""}}, 78), HasSubstr("error EV"));
  const Json json = Json::parse(Shown({{"TF_CONFIG", "{"}}, 78, /*json=*/true));
  EXPECT_EQ(json.at("ok"), false);
  EXPECT_EQ(json.at("findings").size(), 1);
  Shown({{"EVERSTEP_RESOLVER", "nonsense"}}, 78);
}

TEST(ConfigVerbs, OptionsThatAreNoneAreUsageErrors) {
  const auto code = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "config");
    return RunVerb({AddConfig}, std::move(arguments)).code;
  };
  EXPECT_EQ(code({"make", "--workers", "2"}), 2);
  EXPECT_EQ(code({"make", "--workers", "h1", "--format", "yaml"}), 2);
  EXPECT_EQ(code({"make", "--workers", "h1", "--port", "0"}), 2);
  EXPECT_EQ(code({"make", "--workers", "h1", "--task", "worker:1"}), 2);
  EXPECT_EQ(code({"check", "--strategy", "tpu"}), 2);
  EXPECT_EQ(code({"check", "/nowhere"}), 65);
  EXPECT_EQ(code({"check", "/"}), 65);
}

}  // namespace
}  // namespace everstep
