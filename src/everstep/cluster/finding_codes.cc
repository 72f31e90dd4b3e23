// cluster: the table of codes.
#include "everstep/cluster/finding_codes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"

namespace everstep {
namespace {

constexpr bool kError = true, kWarning = false;

constexpr FindingCode kCodes[] = {
    {"EV101", kError, "TF_CONFIG is set but empty",
     "Empty is not the same as unset: TensorFlow tries to read it as JSON and fails.",
     "Unset the variable for a process alone (`unset TF_CONFIG`)."},
    {"EV102", kError, "TF_CONFIG is not JSON",
     "A quote, bracket or comma is missing or too many. Single quotes around names and commas "
     "before "
     "a closing bracket are Python's, not JSON's.",
     "Let a program write it: `json.dumps()` or `everstep config make`."},
    {"EV103", kError, "NaN or Infinity",
     "Python's reader takes them for numbers; JSON has none of them, and no cluster needs one.",
     "Write a number, or leave the value out."},
    {"EV104", kError, "TF_CONFIG is too large",
     "More than 1 MiB of text, 32 levels, 250,000 values or 100,000 tasks.",
     "Look at what wrote it; it is hardly a cluster."},
    {"EV105", kWarning, "the same key twice", "TensorFlow takes the last one and says nothing.",
     "Leave one of them out."},
    {"EV106", kError, "the top is no object",
     "TensorFlow takes a list for no cluster at all, and would train alone.",
     "Write {\"cluster\": {...}, \"task\": {...}}."},
    {"EV107", kError, "cluster is no object",
     "The cluster says for each task type where its tasks are.",
     "Write \"cluster\": {\"worker\": [\"host:port\", ...]}."},
    {"EV108", kError, "the tasks of a type are no list",
     "Each task type has a list of addresses (or an object from index to address).",
     "Write [\"host:port\"], with the brackets even for one."},
    {"EV109", kError, "task is no object",
     "The task says which of the cluster's tasks this process is.",
     "Write \"task\": {\"type\": \"worker\", \"index\": 0}."},
    {"EV110", kWarning, "a key that nobody reads looks like one that is read",
     "TensorFlow ignores keys that it does not know, without a word.",
     "Write the key as it is meant."},
    {"EV111", kError, "a key of an object of tasks is no index, or comes twice",
     "Tasks given as an object have their index as key.",
     "Write a list, whose order is the index."},
    {"EV112", kError, "an index is left out",
     "TensorFlow counts the tasks: with one left out, the highest index is refused as too large.",
     "Name all tasks from 0 on, best as a list."},
    {"EV113", kWarning, "a task type with no tasks", "The list is empty.",
     "Leave the task type out."},
    {"EV114", kError, "no chief or no ps, yet the type is named",
     "The list is empty, but its name is there: TensorFlow then makes the first chief or ps the "
     "leader, "
     "and all wait for a process that nobody starts.",
     "Leave the task type out."},
    {"EV115", kError, "a cluster without any task", "All lists are empty.",
     "Name the tasks, or leave the cluster out for a process alone."},
    {"EV116", kWarning, "the index is a text", "TensorFlow takes it, others may not.",
     "Write the number without quotes."},
    {"EV117", kWarning, "rpc_layer is not grpc",
     "TensorFlow's own builds speak nothing but grpc among the tasks.",
     "Leave it out, or write \"grpc\"."},
    {"EV118", kError, "more findings than are shown",
     "After the first 100 the others are left out.", "Look at what wrote it."},
    {"EV119", kError, "the key of the cluster is misspelt",
     "There is no \"cluster\", but a key that looks like it, which TensorFlow does not read: each "
     "process would train alone.",
     "Write \"cluster\"."},
    {"EV201", kError, "an address is no text", "TensorFlow takes texts only.",
     "Write \"host:port\"."},
    {"EV202", kError, "an address is empty or has blanks",
     "The host would not be found, and everybody would wait for it.",
     "Write \"host:port\" without blanks."},
    {"EV203", kError, "an address begins with a scheme",
     "TensorFlow puts grpc:// before it by itself.", "Write \"host:port\" without scheme."},
    {"EV204", kError, "an address has a user",
     "user@host is for ssh; the name is looked up as it is.",
     "Write \"host:port\" without user, and never a password."},
    {"EV205", kError, "an address has a path", "TensorFlow refuses addresses with '/'.",
     "Write \"host:port\"."},
    {"EV206", kError, "an address has no port", "Each task listens on the port of its own address.",
     "Write \"host:port\", e.g. port 2222."},
    {"EV207", kError, "the port is no number from 1 to 65535", "It cannot be listened on.",
     "Write a number in that range."},
    {"EV208", kError, "port 0",
     "The system would choose a port, which the other tasks cannot know.", "Choose a port."},
    {"EV209", kError, "IPv6 without brackets", "Where the port begins cannot be told.",
     "Write \"[fd00::1]:2222\"."},
    {"EV210", kError, "the host cannot be one", "It has characters that no host name has.",
     "Write a host name, an IPv4 address, or an IPv6 address in brackets."},
    {"EV211", kError, "the same address twice",
     "TensorFlow does not notice. One of the two processes finds the port taken; on two hosts both "
     "listen, and everybody waits for one that is not there.",
     "Give each task an address of its own."},
    {"EV212", kError, "localhost among other hosts",
     "Each host takes localhost for itself, so the others cannot reach that task, and all wait.",
     "Write the name by which all the others reach that host."},
    {"EV301", kError, "no task", "The process would not know which of the tasks it is.",
     "Add \"task\": {\"type\": ..., \"index\": ...}."},
    {"EV302", kError, "the task type is missing or unknown",
     "TensorFlow 2 knows chief, worker, ps and evaluator.", "Write one of them."},
    {"EV303", kError, "master", "TensorFlow 1 called the chief so; TensorFlow 2 refuses it.",
     "Write \"chief\"."},
    {"EV304", kError, "an unknown task type in the cluster",
     "TensorFlow 2 knows chief, worker, ps and evaluator, and refuses others.",
     "Write one of them."},
    {"EV305", kError, "the task is not in the cluster",
     "The type has no tasks, or fewer than the index says. Indices count from 0.",
     "Give each process its own index, or name all tasks in the cluster."},
    {"EV306", kError, "no index", "The process would not know which of the tasks it is.",
     "Write \"index\": 0 for the first."},
    {"EV307", kError, "the index is no whole number",
     "TensorFlow takes 1.9 and true for 1 and \"1_0\" for 10, which nobody means.",
     "Write a whole number from 0 on."},
    {"EV308", kError, "the index is negative",
     "TensorFlow's first check lets it pass; it fails much later.",
     "Write a whole number from 0 on."},
    {"EV309", kError, "the index is out of range", "No cluster is so large.",
     "Write a whole number from 0 on."},
    {"EV310", kError, "more than one chief or evaluator", "There can be only one of each.",
     "Make the others workers."},
    {"EV311", kWarning, "the evaluator is in the trainers' cluster",
     "It takes no part in training, yet the health checks of MultiWorkerMirroredStrategy reach for "
     "all "
     "tasks of the cluster, the evaluator too.",
     "Leave it out of the trainers' cluster; name it in its own."},
    {"EV312", kError, "the evaluator is in the cluster of a parameter-server job",
     "The coordinator connects to all tasks of the cluster, and an evaluator runs no server: it "
     "waits.",
     "Leave it out of the others' cluster; give the evaluator one of its own."},
    {"EV313", kWarning, "the evaluator is not in its own cluster",
     "Some of TensorFlow's functions then fail with KeyError (multi_worker_util.worker_count).",
     "Add \"evaluator\": [\"host:port\"] to the evaluator's own cluster."},
    {"EV314", kError, "the evaluator is not in its own cluster, under MultiWorkerMirroredStrategy",
     "The strategy counts the evaluators at its start and fails with KeyError.",
     "Add \"evaluator\": [\"host:port\"] to the evaluator's own cluster."},
    {"EV315", kError, "ps in a job of MultiWorkerMirroredStrategy",
     "TensorFlow would make ps:0 the leader of the coordination, which nobody starts: all wait.",
     "Leave ps out, or use ParameterServerStrategy."},
    {"EV316", kError, "a parameter-server job without chief",
     "TensorFlow adds a chief at localhost, which workers on other hosts cannot reach.",
     "Add \"chief\": [\"host:port\"], the coordinator, which runs the program."},
    {"EV317", kError, "a parameter-server job without workers", "The chief only coordinates.",
     "Add \"worker\"."},
    {"EV318", kError, "a parameter-server job without ps", "Nobody would hold the variables.",
     "Add \"ps\", or use MultiWorkerMirroredStrategy."},
    {"EV319", kWarning, "ps without chief",
     "If this is a parameter-server job, TensorFlow adds a chief at localhost, which workers on "
     "other "
     "hosts cannot reach.",
     "Add \"chief\": [\"host:port\"]; or leave ps out for MultiWorkerMirroredStrategy."},
    {"EV320", kWarning, "a task without a cluster",
     "Without cluster TensorFlow takes the process for one alone, whatever the task says.",
     "Add the cluster, or leave the task out."},
    {"EV401", kWarning, "a proxy stands between the tasks",
     "gRPC sends the tasks' connections to the proxy, which hardly reaches them.",
     "Name the cluster's hosts in no_proxy."},
    {"EV402", kWarning, "a secret in TF_CONFIG",
     "Environments are seen by other programs and end up in logs. The value is never printed.",
     "Take it out, and change the secret."},
};

}  // namespace

absl::Span<const FindingCode> FindingCodes() { return kCodes; }

const FindingCode* FindCode(std::string_view code) {
  const auto* found = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const FindingCode& each) { return each.code == code; });
  return found == std::end(kCodes) ? nullptr : found;
}

std::string SectionOf(const FindingCode& code) {
  return absl::StrCat("### ", ToAbsl(code.code), ": ", ToAbsl(code.title), "\n\n",
                      code.error ? "Error." : "Warning.", " ", ToAbsl(code.cause), "\n\n",
                      "Cure: ", ToAbsl(code.cure), "\n");
}

}  // namespace everstep
