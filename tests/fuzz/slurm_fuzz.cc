// tests: what must hold for any bytes as a host list or as tasks per node.
#include "slurm_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "everstep/cluster/slurm.h"

namespace everstep::fuzz {
namespace {

void Require(bool holds, const char* rule, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "slurm_fuzz: broken: %s: %s\n", rule, detail.c_str());
  std::abort();
}

void CheckRefusal(const absl::Status& status, const std::string& code, size_t size) {
  const std::string text(status.message());
  Require(absl::IsInvalidArgument(status), "a refusal's code", status.ToString());
  const std::string beginning = code + ": text (byte ";
  Require(text.rfind(beginning, 0) == 0, "a refusal names its code and place", text);
  const long byte = std::strtol(text.c_str() + beginning.size(), nullptr, 10);
  Require(byte >= 1 && byte <= static_cast<long>(size) + 1, "the place is in the text", text);
  for (const char c : text)
    Require(c >= ' ' && c <= '~', "a refusal is one line that prints", text);
}

std::string Joined(const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& host : hosts) text += (text.empty() ? "" : ",") + host;
  return text;
}

}  // namespace

bool TrySlurmHosts(std::string_view text) {
  const auto hosts = ExpandSlurmHosts(text, "text");
  if (!hosts.ok()) {
    CheckRefusal(hosts.status(), "EV520", text.size());
    return false;
  }
  Require(!hosts->empty() && hosts->size() <= kMaxSlurmHosts, "a list has hosts, not too many",
          std::to_string(hosts->size()));
  for (const std::string& host : *hosts) {
    Require(!host.empty() && host.size() <= kMaxHostName &&
                host.find_first_of("[], \t\n") == std::string::npos,
            "hosts are names", host);
  }
  if (hosts->size() <= 1000) {
    const std::string plain = Joined(*hosts);
    const auto again = ExpandSlurmHosts(plain, "text");
    Require(plain.size() > kMaxSlurmText || (again.ok() && *again == *hosts),
            "what is expanded stays as it is", plain);
  }
  return true;
}

bool TrySlurmTasks(std::string_view text) {
  const auto tasks = ExpandSlurmTasksPerNode(text, "text");
  if (!tasks.ok()) {
    CheckRefusal(tasks.status(), "EV521", text.size());
    return false;
  }
  size_t total = 0;
  for (const int of_node : *tasks) {
    Require(of_node > 0, "a node has tasks", std::to_string(of_node));
    total += static_cast<size_t>(of_node);
  }
  Require(total > 0 && total <= kMaxSlurmHosts, "there are tasks, not too many",
          std::to_string(total));
  return true;
}

}  // namespace everstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  everstep::fuzz::TrySlurmHosts(text);
  everstep::fuzz::TrySlurmTasks(text);
  return 0;
}
