// cluster: what is around a TF_CONFIG: proxies, and secrets in it.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/tf_config_address.h"
#include "everstep/cluster/tf_config_rules.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr size_t kMaxHosts = 50;  // in a message

// As gRPC matches: an entry is the end of the host's name, whatever its case.
bool IsCovered(const std::string& host, const std::string& exceptions) {
  for (absl::string_view entry : absl::StrSplit(exceptions, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    if (!entry.empty() && absl::EndsWithIgnoreCase(host, entry)) return true;
  }
  return false;
}

// A plain unknown value with a long key in it is one, too; in the known ones it is a host's name.
void Walk(const JsonValue& value, const std::string& path, const std::string& key, bool known,
          FindingList* findings) {
  if (value.kind == JsonValue::kString) {
    const bool secret =
        HoldsCredentials(value.text) ||
        (!known && (LooksLikeSecret(value.text) || (IsNameOfSecret(key) && !value.text.empty())));
    if (!secret) return;
    findings->Add("EV402", path, value.offset, "holds what looks like a secret; it is not shown",
                  "take it out, and change the secret: environments end up in logs");
    return;
  }
  for (size_t i = 0; i < value.members.size(); ++i) {
    const JsonMember& member = value.members[i];
    const bool object = value.kind == JsonValue::kObject;
    const std::string name = object ? PathPart(member.key) : absl::StrCat("[", i, "]");
    const std::string inner =
        path == "TF_CONFIG" ? name : absl::StrCat(path, object ? "." : "", name);
    const bool top = path == "TF_CONFIG";
    if (object && LooksLikeSecret(member.key)) {
      findings->Add("EV402", inner, member.key_offset,
                    "holds what looks like a secret in a key; it is not shown",
                    "take it out, and change the secret: environments end up in logs");
    }
    Walk(member.value, inner, object ? member.key : key,
         top ? member.key == "cluster" || member.key == "task" : known, findings);
  }
}

}  // namespace

void CheckSecrets(const JsonValue& top, FindingList* findings) {
  Walk(top, "TF_CONFIG", "", false, findings);
}

void CheckProxies(const TfConfigParts& parts, const ExamineOptions& options,
                  FindingList* findings) {
  if (!options.environment) return;
  std::vector<std::string> set;
  for (const char* name : {"grpc_proxy", "https_proxy", "http_proxy", "all_proxy"}) {
    for (const std::string& variable : {std::string(name), absl::AsciiStrToUpper(name)}) {
      if (!options.environment(variable).value_or("").empty()) set.push_back(variable);
    }
  }
  size_t num_tasks = 0;
  for (const JobAt& job : parts.jobs) num_tasks += job.tasks.size();
  if (set.empty() || num_tasks < 2) return;
  // gRPC looks at the first of the two that is set.
  const std::optional<std::string> own = options.environment("no_grpc_proxy");
  const std::string name = own.has_value() ? "no_grpc_proxy" : "no_proxy";
  const std::string exceptions = options.environment(name).value_or("");
  std::vector<std::string> missing;
  std::set<std::string> seen;
  size_t left_out = 0;
  for (const JobAt& job : parts.jobs) {
    for (const AddressAt& address : job.tasks) {
      const CheckedAddress checked = CheckAddress(address.text);
      if (!checked.problem.code.empty() || IsCovered(checked.host, exceptions)) continue;
      if (!seen.insert(checked.host).second) continue;
      if (missing.size() < kMaxHosts && IsPlainAddress(address.text)) {
        missing.push_back(checked.host);
      } else {
        ++left_out;
      }
    }
  }
  if (seen.empty()) return;
  std::string all = LooksLikeSecret(exceptions) ? "..." : exceptions;
  for (const std::string& host : missing) absl::StrAppend(&all, all.empty() ? "" : ",", host);
  findings->AddOutside(
      "EV401", set[0],
      absl::StrCat(
          "a proxy is set (", absl::StrJoin(set, ", "), "), and ", name, " does not except ",
          seen.size() == 1 ? "a host" : absl::StrCat(seen.size(), " hosts"), " of the cluster"),
      absl::StrCat("set ", name, "=", all,
                   left_out > 0 ? absl::StrCat(" and ", left_out, " more") : "",
                   " for every task"));
}

}  // namespace everstep
