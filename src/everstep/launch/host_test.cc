// launch: rules of what is said at a job's end.
#include "everstep/launch/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/pipe.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogNoteTest : public ::testing::Test {
 protected:
  LogNoteTest() {
    result_.from_coordinator = true;
    for (int i : {0, 1, 10}) {
      result_.logs[{"worker", i}] = dir_.File("logs/worker_" + std::to_string(i) + "/7.log");
    }
  }
  void Print(int worker) {
    const std::string directory = dir_.File("logs/worker_" + std::to_string(worker));
    ASSERT_TRUE(fs_.CreateDirectories(directory).ok());
    ASSERT_TRUE(
        fs_.OpenForWriting(JoinPath(directory, "7.log"), FileSystem::Create::kExclusive, 0644)
            .ok());
  }
  std::string Note(const std::string& reason) {
    result_.reason = reason;
    return LogNote(result_, dir_.path(), fs_);
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
  AgentResult result_;
};

TEST_F(LogNoteTest, IsOfTheTaskThatTheReasonNames) {
  Print(0);
  Print(1);
  Print(10);
  result_.failures.push_back({{"worker", 0}, 9, "", result_.logs[{"worker", 0}]});
  // It did not fail, it left: still it is the one that is named.
  EXPECT_EQ(Note("worker:1 exited with code 0 before it joined the others"),
            "  log  " + dir_.File("logs/worker_1/7.log") + "\n");
  EXPECT_EQ(Note("worker:10 exited with code 3"),
            "  log  " + dir_.File("logs/worker_10/7.log") + "\n");
  // What it printed may name others.
  EXPECT_EQ(Note("worker:1 exited with code 3; last lines:\nworker:0 is gone\n"),
            "  log  " + dir_.File("logs/worker_1/7.log") + "\n");
  EXPECT_EQ(Note("too few are left"), "  log  " + dir_.File("logs/worker_0/7.log") + "\n");
}

TEST_F(LogNoteTest, NamesNoFileThatIsNotThere) {
  Print(0);
  EXPECT_EQ(Note("worker:1 was ended by SIGSEGV"), "  log  none: worker:1 printed nothing\n");
  EXPECT_EQ(Note("not enough slots"), "");
  EXPECT_EQ(Note("the coordinator at localhost:29700 has been out of reach for 60 s"), "");
}

TEST_F(LogNoteTest, SaysWhenItIsOnAnotherHost) {
  result_.logs.erase({"worker", 1});
  EXPECT_EQ(Note("worker:1 on b exited with code 65"),
            "  log  on the host of worker:1, in its job directory\n");
  Print(1);  // the directory is shared
  EXPECT_THAT(Note("worker:1 on b exited with code 65"), HasSubstr(dir_.File("logs/worker_1")));
  EXPECT_THAT(Note("worker:1 on b exited with code 65"), Not(HasSubstr("worker_0")));
}

TEST(SayOutcomeTest, OfATaskThatFailedTwiceTheLastLinesAreOfItsLastFailure) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  AgentResult result;
  result.code = 3;
  result.reason = "worker:1 exited with code 3";
  for (const char* tail : {"old\n", "new\n"}) {
    result.failures.push_back({{"worker", 0}, 9, "other\n", ""});
    result.failures.push_back({{"worker", 1}, 3 << 8, tail, ""});
  }
  {
    Console console(pipe->write.get(), pipe->write.get(), RealClock());
    SayOutcome(result, "", std::chrono::seconds(1), &console);
  }
  char bytes[4096];
  const std::string said(bytes, ReadSome(pipe->read.get(), bytes, sizeof bytes));
  EXPECT_THAT(said, HasSubstr("  last lines of worker:1:\n  | new\n"));
  EXPECT_THAT(said, Not(HasSubstr("old")));
}

TEST(StacksNoteTest, IsOfTheHangThatEndedTheNewestRun) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/j").ok());
  std::string lines;
  const auto note = [&](const std::string& fields) {
    lines += "{\"format\":\"everstep.incident.v1\"," + fields + "}\n";
    EXPECT_TRUE(PublishFile(fs, "/j/incidents.jsonl", lines).ok());
    return StacksNote("/j", fs);
  };
  EXPECT_EQ(StacksNote("/j", fs), "");
  EXPECT_EQ(StacksNote("", fs), "");
  EXPECT_EQ(note(R"("kind":"run_started","term":1)"), "");
  EXPECT_EQ(note(R"("kind":"worker_hung","incident":1,"stacks":"/s1","action":"end")"),
            "  stacks  /s1\n");
  EXPECT_EQ(note(R"("kind":"worker_hung","incident":2,"evidence":"weak")"), "  stacks  /s1\n")
      << "that was only told of";
  EXPECT_EQ(note(R"("kind":"worker_failed","incident":3,"action":"end")"), "")
      << "what ended it was no hang";
  EXPECT_EQ(note(R"("kind":"worker_hung","incident":4,"stacks":"/s2","action":"end")"),
            "  stacks  /s2\n");
  EXPECT_EQ(note(R"("kind":"run_started","term":2)"), "");
}

}  // namespace
}  // namespace everstep
