// env: rules of clocks as text, process identities and the kernel's count of kills for memory.
#include "everstep/env/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "everstep/env/clock.h"
#include "everstep/env/file.h"
#include "everstep/env/process.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using std::chrono::seconds;

Process Sleeper() {
  SpawnOptions options;
  options.argv = {"sleep", "60"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  return *Process::Spawn(options);
}

ProcessIdentity IdentityOf(const Process& process) {
  // Its start is not asked for: once the number is free that does not matter.
  ProcessIdentity identity = OwnIdentity();
  identity.pid = process.pid();
  return identity;
}

TEST(ProcessIdentity, OfALivingProcessIsNotGone) {
  const ProcessIdentity self = OwnIdentity();
  EXPECT_GT(self.start_time, 0);
  EXPECT_FALSE(self.boot_id.empty());
  EXPECT_FALSE(self.pid_namespace.empty());
  EXPECT_FALSE(IsKnownGone(self));
}

TEST(ProcessIdentity, IsGoneOnceItsNumberIsFreeOrAnothers) {
  ProcessIdentity self = OwnIdentity();
  self.start_time -= 1;
  EXPECT_TRUE(IsKnownGone(self)) << "the number is of a process that began at another time";
  Process process = Sleeper();
  const ProcessIdentity child = IdentityOf(process);
  process.Signal(SIGKILL);
  ASSERT_TRUE(process.Wait(After(RealClock(), seconds(10))).has_value());
  EXPECT_TRUE(IsKnownGone(child));
}

TEST(ProcessIdentity, OneThatWaitsToBeReapedIsGone) {
  // A copy of this process says who it is.
  TempDirectory temp;
  auto process = Process::Fork([&] {
    auto file = *RealFileSystem().OpenForWriting(temp.File("t"), FileSystem::Create::kTruncate);
    (void)file->Append(std::to_string(OwnIdentity().start_time));
    return 0;
  });
  ASSERT_TRUE(process.ok());
  while (!process->HasExited()) SleepFor(std::chrono::milliseconds(1));
  ProcessIdentity child = OwnIdentity();
  child.pid = process->pid();
  child.start_time = std::stoll(*ReadWholeFile(RealFileSystem(), temp.File("t")));
  EXPECT_TRUE(IsKnownGone(child));
}

TEST(ProcessIdentity, OfAnotherHostBootOrNamespaceIsNeverKnownToBeGone) {
  ProcessIdentity gone = OwnIdentity();
  gone.start_time -= 1;
  ASSERT_TRUE(IsKnownGone(gone));
  for (std::string ProcessIdentity::*field :
       {&ProcessIdentity::host, &ProcessIdentity::boot_id, &ProcessIdentity::pid_namespace}) {
    for (const char* value : {"another", ""}) {
      ProcessIdentity other = gone;
      other.*field = value;
      EXPECT_FALSE(IsKnownGone(other)) << value;
    }
  }
  gone.pid = 0;
  EXPECT_FALSE(IsKnownGone(gone));
}

class OomKillsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string full = temp_.File(path);
    ASSERT_TRUE(RealFileSystem().CreateDirectories(full.substr(0, full.rfind('/'))).ok());
    auto file = RealFileSystem().OpenForWriting(full, FileSystem::Create::kTruncate);
    ASSERT_TRUE(file.ok() && (*file)->Append(text).ok());
  }
  std::optional<int64_t> Count() { return OomKills(temp_.File("groups"), temp_.File("mount")); }
  TempDirectory temp_;
};

TEST_F(OomKillsTest, AreThoseOfOwnGroupInTheUnifiedHierarchy) {
  Write("groups", "0::/a/b\n");
  Write("mount/a/b/memory.events", "low 0\nhigh 3\nmax 5\noom 2\noom_kill 7\n");
  Write("mount/memory.events", "oom_kill 99\n");
  EXPECT_EQ(Count(), 7);
}

TEST_F(OomKillsTest, AreFoundInTheOldHierarchy) {
  Write("groups", "5:cpu,cpuacct:/x\n4:memory:/a\n0::/a\n");
  Write("mount/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_EQ(Count(), 4);
}

TEST_F(OomKillsTest, AreThoseOfTheMountWhereThePathIsTheHosts) {
  Write("groups", "0::/kubepods/pod1\n");
  Write("mount/memory.events", "oom_kill 2\n");
  EXPECT_EQ(Count(), 2);
}

TEST_F(OomKillsTest, AreNotKnownWithoutSuchFiles) {
  EXPECT_EQ(Count(), std::nullopt);
  Write("groups", "nonsense\n3:cpu:/\n0::/\n");
  EXPECT_EQ(Count(), std::nullopt);
  Write("mount/memory.events", "max 5\n");
  EXPECT_EQ(Count(), std::nullopt);
}

TEST(WallTimestamp, IsReadBackToTheMillisecond) {
  const double before = WallSeconds();
  const std::string text = WallTimestamp();
  const double after = WallSeconds();
  EXPECT_EQ(text.size(), 24u) << text;
  const auto seconds = SecondsOfTimestamp(text);
  ASSERT_TRUE(seconds.has_value()) << text;
  EXPECT_GE(*seconds, before - 0.0011);
  EXPECT_LE(*seconds, after + 0.0001);
  EXPECT_DOUBLE_EQ(*SecondsOfTimestamp("1970-01-02T00:00:01.500Z"), 86401.5);
}

TEST(WallTimestamp, NothingElseIsOne) {
  for (const char* text : {"", "now", "2026-11-30", "2026-11-30T19:30:07.123", "1",
                           "2026-11-30T19:30:07.123Z ", "2026-11-30T19:30:nanZ"}) {
    EXPECT_EQ(SecondsOfTimestamp(text), std::nullopt) << text;
  }
}

TEST(BootClock, NeverLagsBehindTheOneThatSleeps) {
  const TimePoint a = BootClock().Now();
  SleepFor(std::chrono::milliseconds(5));
  EXPECT_GE(BootClock().Now() - a, std::chrono::milliseconds(5));
  EXPECT_GE(BootClock().Now(), RealClock().Now() - std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace everstep
