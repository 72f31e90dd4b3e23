// job: tests of the job directory.
#include "everstep/job/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "everstep/base/exit_code.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

NewJob Job(const std::string& directory) {
  NewJob job;
  job.spec.directory = directory;
  job.program = {"/opt/bin/mnist", "--epochs", "1"};
  job.version = "0.1.0";
  job.secret_hex = "abc\n";
  return job;
}

TEST(JobDirectory, HasTheJobItsSecretAndItsPlaces) {
  TempDirectory temp;
  auto made = JobDirectory::Create(RealFileSystem(), Job(temp.File("a/b")));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), SecretPath(made->path())), "abc\n");
  struct stat info;
  ASSERT_EQ(stat(SecretPath(made->path()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto text = ReadWholeFile(RealFileSystem(), ResolvedPath(made->path()));
  const auto spec = FromResolvedJson(*text, ResolvedPath(made->path()));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->spec.directory, made->path());
  EXPECT_EQ(spec->program, made->program());
  EXPECT_TRUE(RealFileSystem().IsDirectory(CheckpointsPath(made->path())));
  made->RemoveSecret();
  EXPECT_FALSE(RealFileSystem().Exists(SecretPath(made->path())));
}

TEST(JobDirectory, HoldsOneJob) {
  TempDirectory temp;
  ASSERT_TRUE(JobDirectory::Create(RealFileSystem(), Job(temp.File("j"))).ok());
  const absl::Status status = JobDirectory::Create(RealFileSystem(), Job(temp.File("j"))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ExitCodeFor(status), kExitNotNow);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(temp.File("j") + " holds a job already; continue it by --resume"));
}

TEST(JobDirectory, DoesNotBeginAnewBesideTheCheckpointsOfAJobThatHasLostItsDescription) {
  TempDirectory temp;
  const std::string orphan = temp.File("j/checkpoints/step-5-h0-v1.1");
  ASSERT_TRUE(RealFileSystem().CreateDirectories(orphan).ok());
  const absl::Status status = JobDirectory::Create(RealFileSystem(), Job(temp.File("j"))).status();
  EXPECT_EQ(ExitCodeFor(status), kExitNotNow);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--resume " + orphan));
}

TEST(JobDirectory, IsAJobsWholeOrNotAtAllWheneverTheMachineStops) {
  bool made = false;
  for (int operations = 0; !made; ++operations) {
    ASSERT_LT(operations, 100);
    MemoryFileSystem fs;
    fs.FailAfter(operations);
    made = JobDirectory::Create(fs, Job("/j")).ok();
    fs.FailAfter(-1);
    // Whoever finds a job there can go on with it; else one can be begun.
    if (fs.Exists(ResolvedPath("/j"))) {
      auto job = JobDirectory::Resume(fs, {"/j", "", {}, [](auto&) { return std::nullopt; }, {}});
      ASSERT_TRUE(job.ok()) << operations << " " << job.status();
      EXPECT_TRUE(job->BeginRun("0.1.0", "x").ok());
      EXPECT_TRUE(ReadJobToken(fs, "/j").ok());
    } else {
      EXPECT_TRUE(JobDirectory::Create(fs, Job("/j")).ok()) << operations;
    }
  }
}

TEST(JobDirectory, HasATokenOfItsOwn) {
  TempDirectory temp;
  auto a = JobDirectory::Create(RealFileSystem(), Job(temp.File("a")));
  auto b = JobDirectory::Create(RealFileSystem(), Job(temp.File("b")));
  ASSERT_TRUE(a.ok() && b.ok());
  const auto token = ReadJobToken(RealFileSystem(), a->path());
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->size(), 32u);
  EXPECT_NE(*token, *ReadJobToken(RealFileSystem(), b->path()));
  const absl::Status none = ReadJobToken(RealFileSystem(), temp.File("c")).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("all hosts of the job share"));
}

TEST(JobDirectory, OneThatCannotBeMadeIsConfiguration) {
  TempDirectory temp;
  ASSERT_TRUE(
      RealFileSystem().OpenForWriting(temp.File("file"), FileSystem::Create::kExclusive).ok());
  const absl::Status status =
      JobDirectory::Create(RealFileSystem(), Job(temp.File("file/job"))).status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(temp.File("file/job")));
}

TEST(JobDirectory, AbandonedOneCanBeUsedAgain) {
  TempDirectory temp;
  auto made = JobDirectory::Create(RealFileSystem(), Job(temp.File("j")));
  ASSERT_TRUE(made.ok());
  made->Abandon();
  EXPECT_FALSE(RealFileSystem().Exists(temp.File("j")));
  EXPECT_TRUE(JobDirectory::Create(RealFileSystem(), Job(temp.File("j"))).ok());
}

TEST(JobDirectory, DefaultIsNamedByProgramAndTimeAndNeverShared) {
  TempDirectory temp;
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(chdir(temp.path().c_str()), 0);
  auto a = JobDirectory::Create(RealFileSystem(), Job(""));
  auto b = JobDirectory::Create(RealFileSystem(), Job(""));
  EXPECT_EQ(chdir(before), 0);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_THAT(a->path(), StartsWith(temp.File("runs/mnist-")));
  EXPECT_NE(a->path(), b->path());
}

TEST(Layout, IsThatOfTheDesign) {
  EXPECT_EQ(CheckpointPath("/j", 120, 1, {2, 3}), "/j/checkpoints/step-120-h1-v2.3");
  EXPECT_EQ(LogPath("/j/", {"worker", 3}, 17), "/j/logs/worker_3/17.log");
  EXPECT_EQ(TermPath("/j", 4), "/j/terms/4");
  EXPECT_THAT(IncidentsPath("/j"), EndsWith("/incidents.jsonl"));
}

}  // namespace
}  // namespace everstep
