// tests: expands compressed host lists, one a line of standard input: "ok NAME NAME ..." or
// "refused WHY" for each.
#include <iostream>
#include <string>

#include "everstep/cluster/slurm.h"

int main() {
  for (std::string list; std::getline(std::cin, list);) {
    const auto hosts = everstep::ExpandSlurmHosts(list, "list");
    std::cout << (hosts.ok() ? "ok" : "refused");
    if (hosts.ok()) {
      for (const std::string& host : *hosts) std::cout << ' ' << host;
    } else {
      std::cout << ' ' << std::string(hosts.status().message());
    }
    std::cout << '\n';
  }
  return 0;
}
