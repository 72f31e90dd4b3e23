// tests: TF_CONFIGs made from right and wrong ones, as functions of a number.
#include <algorithm>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "tf_config_fuzz.h"

namespace everstep::fuzz {
namespace {

const char* const kWords[] = {"\"cluster\"",
                              "\"task\"",
                              "\"type\"",
                              "\"index\"",
                              "\"worker\"",
                              "\"chief\"",
                              "\"ps\"",
                              "\"evaluator\"",
                              "\"master\"",
                              "{",
                              "}",
                              "[",
                              "]",
                              ",",
                              ":",
                              "\"",
                              "\\",
                              "\\u0041",
                              "\\ud800",
                              "null",
                              "true",
                              "NaN",
                              "-Infinity",
                              "1.9",
                              "-1",
                              "0",
                              "1",
                              "99999999999",
                              "\"a:1\"",
                              "\"[::1]:1\"",
                              "\"::1:1\"",
                              "localhost",
                              "127.0.0.1",
                              "grpc://",
                              "me@",
                              ":0",
                              ":65536",
                              "\n",
                              "\t",
                              " ",
                              "\xff",
                              "\xef\xbb\xbf",
                              "\"x\":\"=token=hunter2\"",
                              "=token=hunter2",
                              "@",
                              "'"};

}  // namespace

std::vector<std::string> TfConfigSeeds() {
  return {
      R"({"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":1}})",
      R"({"cluster":{"chief":["c:1"],"ps":["p:1","p:2"],"worker":["a:1"]},"task":{"type":"ps","index":1}})",
      "{\n \"cluster\": {\n  \"worker\": {\"0\": \"a:1\", \"1\": \"[fd00::1]:2\"}\n },\n"
      " \"task\": {\"type\": \"worker\", \"index\": \"0\"},\n \"environment\": \"cloud\"\n}\n",
      R"({"cluster":{"evaluator":["e:1"],"worker":["a:1"]},"task":{"type":"evaluator","index":0}})",
      R"({"cluster":{"worker":["localhost:1","127.0.0.1:2"]},"task":{"type":"worker","index":0}})",
      R"({"cluster":{"worker":["a:1","a:1?=token=hunter2"]},"task":{"type":"worker","index":0}})",
      R"({"cluster":{},"task":{"type":"worker","index":0},"x":{"=token=hunter2":"=token=hunter2"}})",
      R"({"clusters":{"workers":["a","b:0"]},"tasks":{"type":"boss","idx":1.9},"rpc_layer":"x"})",
      "{}",
  };
}

std::string MutateTfConfig(const std::vector<std::string>& seeds, uint64_t n) {
  uint64_t used = 0;
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(RandomAt(n, used++) % std::max<size_t>(1, limit));
  };
  std::string text = seeds[below(seeds.size())];
  for (size_t edits = 1 + below(3); edits > 0; --edits) {
    const size_t at = below(text.size() + 1),
                 length = below(std::min<size_t>(12, text.size() - at));
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.replace(at, length, kWords[below(std::size(kWords))]);
        break;
      case 4:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
      default:
        if (at < text.size() && text[at] >= '0' && text[at] <= '9') text[at] ^= 1;
    }
  }
  return text;
}

}  // namespace everstep::fuzz
