// job: where the tasks of a former run were.
#include "everstep/job/last_seen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/env/temp_directory.h"
#include "everstep/job/directory.h"
#include "everstep/job/status.h"

namespace everstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

void WriteStatus(const std::string& job, const std::string& text) {
  auto file = RealFileSystem().OpenForWriting(StatusPath(job), FileSystem::Create::kTruncate);
  ASSERT_TRUE(file.ok() && (*file)->Append(text).ok());
}

TEST(LastSeen, IsWhatTheLastRunSaidOfItsTasks) {
  const TempDirectory job;
  JobStatus status;
  status.phase = "training";
  status.time = "2026-01-02T03:04:05Z";
  status.tasks.resize(3);
  status.tasks[0].task = "worker:0";
  status.tasks[0].host = "a";
  status.tasks[1].task = "worker:1";  // nowhere yet
  status.tasks[2].task = "worker:2";
  status.tasks[2].host = "b";
  WriteStatus(job.path(), ToStatusJson(status));
  EXPECT_THAT(LastSeenOf(RealFileSystem(), job.path()),
              ElementsAre(Pair("worker:0", "on host a, as of 2026-01-02T03:04:05Z"),
                          Pair("worker:2", "on host b, as of 2026-01-02T03:04:05Z")));
}

TEST(LastSeen, IsNothingWithoutAStatusThatCanBeRead) {
  const TempDirectory job;
  EXPECT_THAT(LastSeenOf(RealFileSystem(), job.path()), IsEmpty());
  WriteStatus(job.path(), "{");
  EXPECT_THAT(LastSeenOf(RealFileSystem(), job.path()), IsEmpty());
}

}  // namespace
}  // namespace everstep
