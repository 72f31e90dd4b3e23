// cluster: tests of what is said of a TF_CONFIG, word for word: malformed inputs, and what a
// launcher can see of the mistakes that people make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/cluster/tf_config.h"

namespace everstep {
namespace {

struct Case {
  const char* text;
  std::vector<std::string> messages;
};

// clang-format off
const Case kCases[] = {
    {"", {"EV101: TF_CONFIG (line 1, column 1): is set but empty, which TensorFlow cannot read; unset it for a process alone"}},
    {"  ", {"EV101: TF_CONFIG (line 1, column 1): is set but empty, which TensorFlow cannot read; unset it for a process alone"}},
    {"{", {"EV102: TF_CONFIG (line 1, column 2): the JSON ends too early; it may have been cut; close what is open, quotes too"}},
    {R"~({"cluster": {"worker": ["a:1",]}})~", {"EV102: TF_CONFIG (line 1, column 31): a comma before ']'; leave the comma out"}},
    {"{'cluster': {}}", {R"~(EV102: TF_CONFIG (line 1, column 2): single quotes, but JSON has double quotes; write "name", and the whole variable in single quotes for the shell)~"}},
    {R"~({"a":NaN})~", {"EV103: TF_CONFIG (line 1, column 6): NaN is not JSON; write a number"}},
    {R"~({"a":[1,-Infinity]})~", {"EV103: TF_CONFIG (line 1, column 9): -Infinity is not JSON; write a number"}},
    {R"~({"a":None})~", {"EV102: TF_CONFIG (line 1, column 6): None is Python, not JSON; make the text with json.dumps()"}},
    {"{} x", {"EV102: TF_CONFIG (line 1, column 4): more text after the end, 'x'; it must be one JSON object"}},
    {"\xef""\xbb""\xbf""{}", {"EV102: TF_CONFIG (line 1, column 1): a byte order mark; leave it out"}},
    {R"~({"a":1,"a":2})~", {"EV105: TF_CONFIG, a (line 1, column 2): comes again below; TensorFlow takes the last one; leave one of them out"}},
    {R"~({"a":tru})~", {"EV102: TF_CONFIG (line 1, column 9): not JSON at '}' (Invalid value); see `everstep config make` for one that is right"}},
    {"[]", {R"~(EV106: TF_CONFIG (line 1, column 1): is a list, but must be an object; write {"cluster": {...}, "task": {...}})~"}},
    {"null", {R"~(EV106: TF_CONFIG (line 1, column 1): is null, but must be an object; write {"cluster": {...}, "task": {...}})~"}},
    {"3", {R"~(EV106: TF_CONFIG (line 1, column 1): is a number, but must be an object; write {"cluster": {...}, "task": {...}})~"}},
    {R"~("x")~", {R"~(EV106: TF_CONFIG (line 1, column 1): is a text, but must be an object; write {"cluster": {...}, "task": {...}})~"}},
    {R"~({"cluster":null})~", {R"~(EV107: TF_CONFIG, cluster (line 1, column 12): is null, but must be an object; write {"worker": ["host:port", ...]})~"}},
    {R"~({"cluster":[]})~", {R"~(EV107: TF_CONFIG, cluster (line 1, column 12): is a list, but must be an object; write {"worker": ["host:port", ...]})~"}},
    {R"~({"cluster":{"worker":"h:1"},"task":{"type":"worker","index":0}})~", {R"~(EV108: TF_CONFIG, cluster.worker (line 1, column 22): is a text, but must be a list of addresses; write ["host:port"], also for one)~"}},
    {R"~({"cluster":{"worker":null},"task":{"type":"worker","index":0}})~", {R"~(EV108: TF_CONFIG, cluster.worker (line 1, column 22): is null, but must be a list of addresses; write ["host:port"], also for one)~"}},
    {R"~({"cluster":{"worker":["a:1",7]},"task":{"type":"worker","index":0}})~", {R"~(EV201: TF_CONFIG, cluster.worker[1] (line 1, column 29): is a number, but must be a text; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1",null]},"task":{"type":"worker","index":0}})~", {R"~(EV201: TF_CONFIG, cluster.worker[1] (line 1, column 29): is null, but must be a text; write "host:port")~"}},
    {R"~({"cluster":{"worker":[]},"task":{"type":"worker","index":0}})~", {"EV115: TF_CONFIG, cluster (line 1, column 13): has no task at all; name the tasks, or leave the cluster out for a process alone", "EV305: TF_CONFIG, task.index (line 1, column 58): index 0, but worker has no tasks; give each process its own index"}},
    {R"~({"cluster":{"chief":[],"worker":["a:1"]},"task":{"type":"worker","index":0}})~", {"EV114: TF_CONFIG, cluster.chief (line 1, column 13): has no task, yet TensorFlow makes its first one the leader; leave chief out"}},
    {R"~({"cluster":{"chief":["a:1"],"worker":[]},"task":{"type":"chief","index":0}})~", {"EV113: TF_CONFIG, cluster.worker (line 1, column 29): has no task; leave worker out"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]}})~", {R"~(EV301: TF_CONFIG (line 1, column 1): has a cluster but no task; add "task": {"type": "worker", "index": 0}, with this process's own index)~"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":null})~", {R"~(EV109: TF_CONFIG, task (line 1, column 50): is null, but must be an object; write {"type": "worker", "index": 0})~"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker"}})~", {R"~(EV306: TF_CONFIG, task (line 1, column 50): has no index; write "index": 0 for the first)~"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"index":0}})~", {"EV302: TF_CONFIG, task (line 1, column 50): has no type; write chief, worker, ps or evaluator"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"1"}})~", {"EV116: TF_CONFIG, task.index (line 1, column 75): '1' is a text; a number is meant; write 1"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":" 1 "}})~", {"EV116: TF_CONFIG, task.index (line 1, column 75): ' 1 ' is a text; a number is meant; write 1"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"1_0"}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '1_0' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":1.9}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '1.9' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":true}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): is true, but must be a whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":""}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"0x1"}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '0x1' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"one"}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): 'one' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":null}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): is null, but must be a whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":-1}})~", {"EV308: TF_CONFIG, task.index (line 1, column 75): '-1' is negative; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"-1"}})~", {"EV308: TF_CONFIG, task.index (line 1, column 75): '-1' is negative; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":3}})~", {"EV305: TF_CONFIG, task.index (line 1, column 75): index 3, but worker has 3 tasks (0 to 2); give each process its own index"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":99999999999999999999}})~", {"EV309: TF_CONFIG, task.index (line 1, column 75): '99999999999999999999' is out of range; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":-0}})~", {}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":1e0}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '1e0' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":[0]}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): is a list, but must be a whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":"+1"}})~", {"EV307: TF_CONFIG, task.index (line 1, column 75): '+1' is no whole number; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":["a:1",""]},"task":{"type":"worker","index":0}})~", {R"~(EV202: TF_CONFIG, cluster.worker[1] (line 1, column 29): an empty address; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1","b"]},"task":{"type":"worker","index":0}})~", {R"~(EV206: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b' has no port; write "host:port", e.g. :2222)~"}},
    {R"~({"cluster":{"worker":["a:1","b:"]},"task":{"type":"worker","index":0}})~", {R"~(EV206: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b:' has no port; write "host:port", e.g. :2222)~"}},
    {R"~({"cluster":{"worker":["a:1","b:x"]},"task":{"type":"worker","index":0}})~", {R"~(EV207: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b:x' has a port that is no number from 1 to 65535; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1","b:0"]},"task":{"type":"worker","index":0}})~", {"EV208: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b:0' has port 0, which the other tasks cannot know; choose a port"}},
    {R"~({"cluster":{"worker":["a:1","b:65536"]},"task":{"type":"worker","index":0}})~", {R"~(EV207: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b:65536' has a port that is no number from 1 to 65535; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1","::1:80"]},"task":{"type":"worker","index":0}})~", {R"~(EV209: TF_CONFIG, cluster.worker[1] (line 1, column 29): '::1:80' is IPv6 without brackets; write "[::1]:80")~"}},
    {R"~({"cluster":{"worker":["a:1","fd00::1"]},"task":{"type":"worker","index":0}})~", {R"~(EV209: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'fd00::1' is IPv6 without brackets; write "[fd00::1]:2222")~"}},
    {R"~({"cluster":{"worker":["a:1","[::1]:80"]},"task":{"type":"worker","index":0}})~", {"EV212: TF_CONFIG, cluster.worker[1] (line 1, column 29): '[::1]:80' is this host for every host, but cluster.worker[0] is on another one; write the name by which all the others reach that host"}},
    {R"~({"cluster":{"worker":["a:1","[::1"]},"task":{"type":"worker","index":0}})~", {R"~(EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): '[::1' has no IPv6 address in its brackets; write "host:port" or "[fd00::1]:2222")~"}},
    {R"~({"cluster":{"worker":["a:1","[x]:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has no IPv6 address in its brackets; write "host:port" or "[fd00::1]:2222")~"}},
    {R"~({"cluster":{"worker":["a:1","grpc://b:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV203: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has a scheme; TensorFlow adds grpc:// itself; write "host:port" alone)~"}},
    {R"~({"cluster":{"worker":["a:1","me@b:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV204: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has a user; write "host:port" alone)~"}},
    {R"~({"cluster":{"worker":["a:1","me:pw@b:1"]},"task":{"type":"worker","index":0}})~", {"EV402: TF_CONFIG, cluster.worker[1] (line 1, column 29): holds what looks like a secret; it is not shown; take it out, and change the secret: environments end up in logs", R"~(EV204: TF_CONFIG, cluster.worker[1] (line 1, column 29): (not shown: it looks like a secret) has a user; write "host:port" alone)~"}},
    {R"~({"cluster":{"worker":["a:1","b:1/x"]},"task":{"type":"worker","index":0}})~", {R"~(EV205: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has a '/'; write "host:port" alone)~"}},
    {R"~({"cluster":{"worker":["a:1","b: 1"]},"task":{"type":"worker","index":0}})~", {R"~(EV202: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has blanks; write "host:port" without blanks)~"}},
    {R"~({"cluster":{"worker":["a:1","b b:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV202: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has blanks; write "host:port" without blanks)~"}},
    {R"~({"cluster":{"worker":["a:1","a:1"]},"task":{"type":"worker","index":0}})~", {"EV211: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'a:1' is cluster.worker[0] already; give each task an address of its own"}},
    {R"~({"cluster":{"worker":["a:1","A.:1"]},"task":{"type":"worker","index":0}})~", {"EV211: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'A.:1' is cluster.worker[0] already; give each task an address of its own"}},
    {R"~({"cluster":{"worker":["a:1","localhost:1"]},"task":{"type":"worker","index":0}})~", {"EV212: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'localhost:1' is this host for every host, but cluster.worker[0] is on another one; write the name by which all the others reach that host"}},
    {R"~({"cluster":{"worker":["a:1","127.0.0.1:2"]},"task":{"type":"worker","index":0}})~", {"EV212: TF_CONFIG, cluster.worker[1] (line 1, column 29): '127.0.0.1:2' is this host for every host, but cluster.worker[0] is on another one; write the name by which all the others reach that host"}},
    {R"~({"cluster":{"worker":["a:1","b:1:2"]},"task":{"type":"worker","index":0}})~", {R"~(EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): 'b:1:2' has too many ':'; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1","h\u00f6st:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): '...' has a host that cannot be one; write a host name, an IPv4 address, or an IPv6 address in brackets)~"}},
    {R"~({"cluster":{"worker":["a:1","-b:1"]},"task":{"type":"worker","index":0}})~", {"EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): '-b:1' has a host that cannot be one; write a host name, an IPv4 address, or an IPv6 address in brackets"}},
    {R"~({"cluster":{"worker":["a:1",":1"]},"task":{"type":"worker","index":0}})~", {R"~(EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): ':1' has no host; write "host:port")~"}},
    {R"~({"cluster":{"worker":["a:1","[::1]"]},"task":{"type":"worker","index":0}})~", {R"~(EV206: TF_CONFIG, cluster.worker[1] (line 1, column 29): '[::1]' has no port; write "host:port", e.g. :2222)~"}},
    {R"~({"cluster":{"worker":["a:1","token=abcd:1"]},"task":{"type":"worker","index":0}})~", {"EV402: TF_CONFIG, cluster.worker[1] (line 1, column 29): holds what looks like a secret; it is not shown; take it out, and change the secret: environments end up in logs", "EV210: TF_CONFIG, cluster.worker[1] (line 1, column 29): (not shown: it looks like a secret) has a host that cannot be one; write a host name, an IPv4 address, or an IPv6 address in brackets"}},
    {R"~({"cluster":{"worker":{"1":"b:2","0":"a:1"}},"task":{"type":"worker","index":0}})~", {}},
    {R"~({"cluster":{"worker":{"1":"b:2"}},"task":{"type":"worker","index":1}})~", {"EV112: TF_CONFIG, cluster.worker.1 (line 1, column 23): index 1, but there is no index 0; name all tasks from 0 on"}},
    {R"~({"cluster":{"worker":{"x":"b:2"}},"task":{"type":"worker","index":0}})~", {"EV111: TF_CONFIG, cluster.worker.x (line 1, column 23): is no index; write a whole number from 0 on"}},
    {R"~({"cluster":{"worker":{"0":"b:2"," 0":"c:1"}},"task":{"type":"worker","index":0}})~", {"EV111: TF_CONFIG, cluster.worker.' 0' (line 1, column 33): index 0 comes twice; leave one of them out"}},
    {R"~({"cluster":{"master":["a:1"],"worker":["b:1"]},"task":{"type":"master","index":0}})~", {R"~(EV303: TF_CONFIG, cluster.master (line 1, column 13): TensorFlow 2 refuses master; write "chief")~", R"~(EV303: TF_CONFIG, task.type (line 1, column 63): TensorFlow 2 refuses master; write "chief")~"}},
    {R"~({"cluster":{"workers":["a:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV304: TF_CONFIG, cluster.workers (line 1, column 13): is no task type of TensorFlow 2; write "worker")~"}},
    {R"~({"clusters":{},"tasks":{}})~", {R"~(EV119: TF_CONFIG, clusters (line 1, column 2): TensorFlow does not read this key, and would take this process for one alone; write "cluster")~", R"~(EV110: TF_CONFIG, tasks (line 1, column 16): TensorFlow does not read this key; write "task")~"}},
    {R"~({"cluster":{"foo":["a:1"]},"task":{"type":"worker","index":0}})~", {"EV304: TF_CONFIG, cluster.foo (line 1, column 13): is no task type of TensorFlow 2; write chief, worker, ps or evaluator"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"ps","index":0}})~", {R"~(EV305: TF_CONFIG, task.type (line 1, column 50): the cluster has no ps; add "ps" to the cluster, or name a type that it has)~"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"boss","index":0}})~", {"EV302: TF_CONFIG, task.type (line 1, column 58): '...' is no task type of TensorFlow 2; write chief, worker, ps or evaluator"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","idx":0}})~", {R"~(EV306: TF_CONFIG, task (line 1, column 50): has no index; write "index": 0 for the first)~", R"~(EV110: TF_CONFIG, task.idx (line 1, column 67): TensorFlow does not read this key; write "index")~"}},
    {R"~({"cluster":{"chief":["a:1","b:1"],"worker":["c:1"]},"task":{"type":"chief","index":1}})~", {"EV310: TF_CONFIG, cluster.chief (line 1, column 28): has 2 tasks, but there can be only one; make the others workers"}},
    {R"~({"cluster":{"worker":["a:1"],"evaluator":["e:1"]},"task":{"type":"worker","index":0}})~", {"EV311: TF_CONFIG, cluster.evaluator (line 1, column 30): the evaluator takes no part in training, but health checks reach for it; leave it out here, and name it in the evaluator's own cluster only"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"evaluator","index":0}})~", {R"~(EV313: TF_CONFIG, task (line 1, column 50): is the evaluator, which its own cluster does not name; add "evaluator": ["host:port"] to this process's cluster)~"}},
    {R"~({"cluster":{"worker":["a:1"],"ps":["p:1"]},"task":{"type":"worker","index":0}})~", {R"~(EV319: TF_CONFIG, cluster.ps (line 1, column 30): parameter servers, but no chief: TensorFlow would add one at localhost; add "chief": ["host:port"])~"}},
    {R"~({"task":{"type":"worker","index":2}})~", {"EV320: TF_CONFIG, task (line 1, column 9): is worker:2, but there is no cluster: TensorFlow takes this process for one alone; add the cluster"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":0},"rpc_layer":"grpc+verbs"})~", {"EV117: TF_CONFIG, rpc_layer (line 1, column 90): is 'grpc+verbs', but TensorFlow has grpc alone; leave it out"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":0},"session_master":"grpc://me:pw@h:1"})~", {"EV402: TF_CONFIG, session_master (line 1, column 95): holds what looks like a secret; it is not shown; take it out, and change the secret: environments end up in logs"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":0},"my_token":"x"})~", {"EV402: TF_CONFIG, my_token (line 1, column 89): holds what looks like a secret; it is not shown; take it out, and change the secret: environments end up in logs"}},
    {R"~({"cluster":{"worker":["a:1","b:2","c:3"]},"task":{"type":"worker","index":0},"x":["0123456789abcdef0123456789abcdef"]})~", {"EV402: TF_CONFIG, x[0] (line 1, column 83): holds what looks like a secret; it is not shown; take it out, and change the secret: environments end up in logs"}},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", {"EV104: TF_CONFIG (line 1, column 33): nested deeper than 32; a cluster needs three levels"}},
};
// clang-format on

TEST(TfConfigMessages, AreThese) {
  for (const Case& c : kCases) {
    const TfConfigReport report = ExamineTfConfig(std::string(c.text));
    std::vector<std::string> messages;
    for (const Finding& finding : report.findings) messages.push_back(finding.ToString());
    EXPECT_EQ(messages, c.messages) << c.text;
    EXPECT_EQ(report.ok(), report.config.has_value()) << c.text;
  }
}

}  // namespace
}  // namespace everstep
