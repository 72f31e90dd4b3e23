// tests: what must hold for any text in TF_CONFIG.
#include "tf_config_fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include "everstep/cli/config.h"
#include "everstep/cli/config_text.h"
#include "everstep/cluster/explain.h"
#include "everstep/cluster/finding_codes.h"
#include "everstep/cluster/tf_config.h"

namespace everstep::fuzz {
namespace {

void Expect(bool holds, const char* what, const std::string& message = "") {
  if (holds) return;
  std::fprintf(stderr, "tf_config_fuzz: broken: %s: %s\n", what, message.c_str());
  std::abort();
}

// The rest of the text's line is at least that long.
bool IsPlace(std::string_view text, int line, int column) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return false;
    begin = end + 1;
  }
  const size_t end = std::min(text.find('\n', begin), text.size());
  return line >= 1 && column >= 1 && begin + static_cast<size_t>(column) - 1 <= end;
}

void CheckFinding(std::string_view text, const Finding& finding, bool hides_secrets) {
  const std::string message = finding.ToString();
  const FindingCode* code = FindCode(finding.code);
  Expect(code != nullptr && code->error == finding.error, "an unknown code", message);
  Expect(!finding.where.empty() && !finding.what.empty() && !finding.cure.empty(),
         "a finding that is not whole", message);
  Expect(finding.line == 0 ? finding.code == "EV401" : IsPlace(text, finding.line, finding.column),
         "a place outside of the text", message);
  Expect(std::all_of(message.begin(), message.end(),
                     [](unsigned char c) { return c >= 0x20 && c < 0x7f; }),
         "a message that is no plain line", message);
  Expect(!hides_secrets || message.find(kSecret) == std::string::npos, "a secret is shown",
         message);
}

// Whether all there is of secrets is marked as such.
bool HasMarkedSecretsOnly(std::string_view text) {
  constexpr std::string_view kMark = "=token=";
  for (size_t at = text.find(kSecret); at != std::string_view::npos;
       at = text.find(kSecret, at + 1)) {
    if (at < kMark.size() || text.substr(at - kMark.size(), kMark.size()) != kMark) return false;
  }
  return true;
}

void CheckTaken(const TfConfig& config, const ExamineOptions& options) {
  Expect(!ExplainPlace(config, options.strategy).empty(), "no explanation");
  Expect(config.task.has_value() || config.cluster.jobs.empty(), "a cluster without a task");
  if (!config.task.has_value()) return;
  const std::string written = WriteTfConfig(config.cluster, *config.task);
  const TfConfigReport again = ExamineTfConfig(written, options);
  Expect(again.config.has_value() && again.config->cluster.jobs == config.cluster.jobs &&
             again.config->task == config.task,
         "what is written reads otherwise", written);
  Expect(WriteTfConfig(again.config->cluster, *again.config->task) == written, "not canonical",
         written);
}

// The begin and end of the bodies of strings, quotes left out.
std::vector<std::pair<size_t, size_t>> Strings(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> bodies;
  for (size_t i = text.find('"'); i < text.size(); i = text.find('"', i)) {
    const size_t begin = ++i;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    if (i >= text.size()) break;
    bodies.emplace_back(begin, i++);
  }
  return bodies;
}

std::string WhatCheckPrints(const ConfigText& config, bool json) {
  Surroundings surroundings;
  surroundings.environment = [](const std::string&) { return std::optional<std::string>(); };
  ShowOptions options;
  options.json = json;
  std::ostringstream out;
  const absl::Status status = CheckConfig(&config, "config", options, surroundings, out);
  return out.str() + std::string(status.message());
}

// A secret as the body of any string, key or value, is in nothing that `config check` prints.
void CheckHidden(std::string_view text) {
  // kHidden without its first letter, which may be escaped; none is a plain address.
  constexpr const char* kForms[] = {"swordfish",
                                    "\\u0073wordfish",
                                    "swordfish@a:1",
                                    "me:swordfish@a:1",
                                    "token:swordfish",
                                    "swordfish:x",
                                    "http://a:1/?key=swordfish",
                                    "a:1/swordfish",
                                    "u%3Aswordfish%40a:1",
                                    "grpc?pass=swordfish",
                                    "[swordfish]:1",
                                    "fe80::1%swordfish",
                                    "a b swordfish",
                                    "me:swordfish\\u0040a:1"};
  constexpr std::string_view kHidden = "wordfish";
  const std::vector<std::pair<size_t, size_t>> bodies = Strings(text);
  size_t form = text.size();  // another for each text
  for (const auto& [begin, end] : bodies) {
    std::string with(text);
    with.replace(begin, end - begin, kForms[form++ % std::size(kForms)]);
    for (const bool json : {false, true}) {
      const std::string said = WhatCheckPrints(PlainConfig(with), json);
      Expect(said.find(kHidden) == std::string::npos, "a hidden string is shown", with + said);
    }
    const std::string wrapped = "export TF_CONFIG='" + with + "' B=wordfish";
    const std::string said = WhatCheckPrints(UnwrapConfig(wrapped), false);
    Expect(said.find(kHidden) == std::string::npos, "a hidden string is shown", wrapped + said);
  }
}

}  // namespace

bool TryTfConfig(std::string_view text) {
  bool taken = false;
  CheckHidden(text);
  const bool hides_secrets = HasMarkedSecretsOnly(text);
  for (const StrategyKind strategy : {StrategyKind::kUnknown, StrategyKind::kMultiWorkerMirrored,
                                      StrategyKind::kParameterServer}) {
    ExamineOptions options;
    options.strategy = strategy;
    options.environment = [](const std::string& name) {
      return name == "https_proxy" ? std::optional<std::string>("http://me:hunter2@proxy:1")
                                   : std::nullopt;
    };
    const TfConfigReport report = ExamineTfConfig(std::string(text), options);
    for (const Finding& finding : report.findings) CheckFinding(text, finding, hides_secrets);
    Expect(report.ok() == report.config.has_value(), "errors and a cluster, or neither");
    if (report.config.has_value()) CheckTaken(*report.config, options);
    if (strategy == StrategyKind::kUnknown) taken = report.ok();
  }
  return taken;
}

}  // namespace everstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  everstep::fuzz::TryTfConfig({reinterpret_cast<const char*>(data), size});
  return 0;
}
