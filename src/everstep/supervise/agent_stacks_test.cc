// supervise: tests of the agent: the stacks of its processes.
#include <signal.h>

#include <optional>

#include "everstep/supervise/agent_test_job.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class AgentStacksTest : public AgentTest {
 protected:
  // What is seen of the processes wakes the agent often.
  AgentStacksTest() { options_.watch_interval = milliseconds(20); }
  // Asks for the stacks once "up" has come.
  Stacks RunAndTake() {
    link_.orders = {Worker(0)};
    Once("worker:0|up", [&] { link_.orders.push_back(TakeStacks{100}); });
    link_.on_send = [&](const AgentMessage& message) {
      if (std::holds_alternative<Stacks>(message)) link_.orders.push_back(JobEnded{75, "a hang"});
    };
    Run();
    EXPECT_EQ(link_.Sent<Stacks>().size(), 1u);
    return link_.Sent<Stacks>().empty() ? Stacks() : link_.Sent<Stacks>()[0];
  }
  void Python(const std::string& script) {
    options_.context.inherited["PYTHONUNBUFFERED"] = "1";
    options_.program = {"python3", "-c", script};
  }
};

constexpr char kHangingPython[] = R"(
import os, signal, threading, time
def helper_that_waits():
    time.sleep(1000)
def main_that_waits():
    while True:
        print("up", flush=True)
        STOP
        time.sleep(1000)
threading.Thread(target=helper_that_waits, daemon=True).start()
time.sleep(0.1)
main_that_waits()
)";

std::string HangingPython(const std::string& stop) {
  std::string script = kHangingPython;
  return script.replace(script.find("STOP"), 4, stop);
}

TEST_F(AgentStacksTest, OfPythonAreThoseOfAllItsThreads) {
  Python(HangingPython("pass"));
  const Stacks stacks = RunAndTake();
  EXPECT_EQ(stacks.incarnation, 100u);
  EXPECT_THAT(stacks.text, HasSubstr("in main_that_waits"));
  EXPECT_THAT(stacks.text, HasSubstr("in helper_that_waits"));
  EXPECT_THAT(stacks.text, HasSubstr(": python3 -c"));
  EXPECT_EQ(stacks.path, temp_.File("logs/worker_0/stacks-100.txt"));
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), stacks.path), stacks.text);
  EXPECT_LT(took_, seconds(5));
  EXPECT_EQ(link_.Sent<Exited>().size(), 1u);
  for (const AgentMessage& message : link_.sent) {
    EXPECT_FALSE(std::holds_alternative<Exited>(message)) << "its end is told afterwards";
    if (std::holds_alternative<Stacks>(message)) break;
  }
}

TEST_F(AgentStacksTest, OfAStoppedPythonTooAndThatItWasStopped) {
  Python(HangingPython("os.kill(os.getpid(), signal.SIGSTOP)"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("(stopped by a signal)"));
  EXPECT_THAT(stacks.text, HasSubstr("in main_that_waits"));
}

TEST_F(AgentStacksTest, OfAPythonWithoutAFaultHandlerAreNativeAndItLivesOn) {
  options_.context.inherited["PYTHONFAULTHANDLER"] = "";
  Python(HangingPython("pass"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("#0 "));
  EXPECT_THAT(stacks.text, testing::Not(HasSubstr("in main_that_waits")));
  EXPECT_EQ(link_.Sent<Exited>().at(0).wait_status, SIGTERM) << "by the end of the job";
}

TEST_F(AgentStacksTest, OfOtherProgramsAreNativeOfTheWholeTree) {
  // Not before it sleeps: it might be held on its way there.
  Script(
      "sleep 1000 & at=/proc/$!; until grep -q nanosleep $at/wchan; do sleep 0.01; done; "
      "echo up; wait");
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr(": sh -c sleep 1000"));
  EXPECT_THAT(stacks.text, testing::Not(HasSubstr("stopped by a signal"))) << "by us";
  EXPECT_THAT(stacks.text, HasSubstr(": sleep 1000\nthread "));
  EXPECT_THAT(stacks.text, HasSubstr("nanosleep"));
}

TEST_F(AgentStacksTest, OfAPythonUnderAShellAreThePythons) {
  Python(HangingPython("pass"));
  options_.program = {"sh", "-c", "python3 -c \"$0\"; true", options_.program[2]};
  EXPECT_THAT(RunAndTake().text, HasSubstr("in main_that_waits"));
}

TEST_F(AgentStacksTest, OfAPythonWhoseErrorsGoToAnotherProcessAreNative) {
  Python(HangingPython("pass"));
  options_.program = {"sh", "-c", "python3 -c \"$0\" 2>&1 | cat", options_.program[2]};
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, testing::Not(HasSubstr("without a word")));
  EXPECT_THAT(stacks.text, HasSubstr("PyEval")) << "the interpreter's functions";
}

TEST_F(AgentStacksTest, OfAPythonThatSpeaksToSomebodyElseAreNative) {
  Python(HangingPython("os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("#0 "));
}

TEST_F(AgentStacksTest, OfAProcessThatHasEndedAreAWordOfThat) {
  Script("exit 0");
  link_.orders = {Worker(0)};
  link_.on_send = [&](const AgentMessage& message) {
    if (std::holds_alternative<Exited>(message)) link_.orders.push_back(TakeStacks{100});
    if (std::holds_alternative<Stacks>(message)) link_.orders.push_back(JobEnded{0, ""});
  };
  Run();
  EXPECT_EQ(link_.Sent<Stacks>().at(0).text, "it has ended\n");
}

// Its peer ends as soon as it does, as members of a gang do.
constexpr char kPeers[] = R"(
import os, socket, sys, time
def waits_for_its_peer(other):
    other.recv(1)
name = sys.argv[1]
if os.environ["RANK"] == "0":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name + ".new")
    listener.listen()
    os.rename(name + ".new", name)
    other = listener.accept()[0]
else:
    while not os.path.exists(name):
        time.sleep(0.01)
    other = socket.socket(socket.AF_UNIX)
    other.connect(name)
print("up", flush=True)
waits_for_its_peer(other)
)";

TEST_F(AgentStacksTest, OfPeersThatAreAskedOneAfterAnotherAreThoseOfBoth) {
  Python(kPeers);
  options_.program.push_back(temp_.File("peers"));
  link_.orders = {Worker(0), Worker(1)};
  std::optional<TimePoint> asked;
  bool both = false;
  link_.on_poll = [&] {
    if (!asked.has_value() && view_.Has("worker:0|up") && view_.Has("worker:1|up")) {
      asked = RealClock().Now();
      link_.orders.push_back(TakeStacks{100});
    }
    // The second order is long on its way, as on a loaded machine.
    if (asked.has_value() && !both && RealClock().Now() - *asked >= milliseconds(50)) {
      both = true;
      link_.orders.push_back(TakeStacks{101});
    }
  };
  link_.on_send = [&](const AgentMessage& message) {
    if (std::holds_alternative<Stacks>(message) && link_.Sent<Stacks>().size() == 1)
      link_.orders.push_back(JobEnded{75, "a hang"});
  };
  Run();
  ASSERT_EQ(link_.Sent<Stacks>().size(), 2u);
  for (const Stacks& stacks : link_.Sent<Stacks>()) {
    EXPECT_THAT(stacks.text, HasSubstr("in waits_for_its_peer")) << stacks.incarnation;
  }
}

}  // namespace
}  // namespace everstep
