// job: rules of going on with a job.
#include "everstep/job/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  JobDirectory Make(const std::string& name, const std::string& begin_from = "") {
    NewJob job;
    const std::map<std::string, std::string> flags = {
        {"workers", "2"}, {"replicas", "4"}, {"seed", "7"}, {"job-dir", temp_.File(name)}};
    job.spec = *ResolveJob(flags, None);
    job.spec.begin_from = begin_from;
    job.program = {"train", "--epochs", "1"};
    job.version = "0.1.0";
    job.secret_hex = "first\n";
    return *JobDirectory::Create(fs_, job);
  }
  absl::StatusOr<JobDirectory> Resume(const std::string& name,
                                      std::map<std::string, std::string> flags = {},
                                      std::vector<std::string> program = {},
                                      std::string restore_from = "") {
    return JobDirectory::Resume(fs_, {temp_.File(name), restore_from, flags, None, program});
  }
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(fs_.CreateDirectories(DirectoryOf(temp_.File(path))).ok());
    ASSERT_TRUE(PublishFile(fs_, temp_.File(path), text).ok());
  }
  void End(const std::string& name, int code, std::vector<std::string> program) {
    Put(name + "/outcome.json", ToOutcomeJson({code, "", 10, std::move(program), ""}));
  }
  static std::optional<std::string> None(const std::string&) { return std::nullopt; }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory temp_;
};

TEST_F(ResumeTest, ChangesNothingUntilTheRunBegins) {
  Make("j");
  const std::string resolved = *ReadWholeFile(fs_, temp_.File("j/resolved.json"));
  auto job = Resume("j", {{"workers", "3"}}, {"train", "--epochs", "2"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec().workers, 3);
  EXPECT_EQ(job->spec().seed, 7u);
  EXPECT_EQ(*ReadWholeFile(fs_, temp_.File("j/secret")), "first\n");
  EXPECT_FALSE(fs_.Exists(temp_.File("j/run.json")));

  ASSERT_TRUE(job->BeginRun("0.2.0", "second\n").ok());
  EXPECT_EQ(*ReadWholeFile(fs_, temp_.File("j/secret")), "second\n");
  struct stat info;
  ASSERT_EQ(stat(temp_.File("j/secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*ReadWholeFile(fs_, temp_.File("j/resolved.json")), resolved) << "stays as it was made";
}

TEST_F(ResumeTest, TheNextRunIsAsTheLastOne) {
  Make("j");
  auto job = Resume("j", {{"workers", "3"}, {"lost-after", "9"}}, {"train", "--epochs", "2"});
  ASSERT_TRUE(job.ok() && job->BeginRun("0.1.0", "x").ok());
  const auto next = Resume("j");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->spec().workers, 3);
  EXPECT_EQ(next->spec().lost_after, std::chrono::seconds(9));
  EXPECT_THAT(next->program(), ElementsAre("train", "--epochs", "2"));
}

TEST_F(ResumeTest, TheProgramIsOfTheDirectoryWhereItWasNamed) {
  Make("j");
  const std::string here = AbsolutePath(".");
  EXPECT_EQ(Resume("j")->run().working_directory, here);
  ASSERT_TRUE(ChangeDirectory(temp_.path()).ok());
  EXPECT_EQ(Resume("j")->run().working_directory, here);
  auto job = Resume("j", {}, {"other"});
  EXPECT_EQ(job->run().working_directory, temp_.path());
  ASSERT_TRUE(job->BeginRun("0.1.0", "x").ok() && ChangeDirectory(here).ok());
  EXPECT_EQ(Resume("j")->run().working_directory, temp_.path());
}

TEST_F(ResumeTest, AJobThatWasMovedGoesOnWhereItIs) {
  Make("j");
  ASSERT_TRUE(fs_.Rename(temp_.File("j"), temp_.File("k")).ok());
  EXPECT_EQ(Resume("k")->path(), temp_.File("k"));
}

TEST_F(ResumeTest, AJobThatIsDoneIsFinishedForTheSameProgramOnly) {
  Make("j");
  End("j", 0, {"train", "--epochs", "1"});
  EXPECT_TRUE(Resume("j")->finished().has_value());
  EXPECT_EQ(Resume("j")->finished()->step, 10);
  EXPECT_TRUE(Resume("j", {}, {"train", "--epochs", "1"})->finished().has_value());
  EXPECT_FALSE(Resume("j", {}, {"train", "--epochs", "2"})->finished().has_value());
  EXPECT_FALSE(Resume("j", {}, {}, temp_.File("j/checkpoints/x"))->finished().has_value());
  End("j", 137, {"train", "--epochs", "1"});
  EXPECT_FALSE(Resume("j")->finished().has_value()) << "it failed";
}

TEST_F(ResumeTest, ARunThatBeginsTakesAwayTheOutcomeOfTheOneBefore) {
  Make("j");
  End("j", 0, {"train", "--epochs", "1"});
  auto job = Resume("j", {}, {"train", "--epochs", "2"});
  ASSERT_TRUE(job.ok() && job->BeginRun("0.1.0", "x").ok());
  EXPECT_FALSE(Resume("j")->finished().has_value()) << "two epochs are not done";
}

TEST_F(ResumeTest, AnOlderJobWithoutATokenGetsOne) {
  Make("j");
  ASSERT_TRUE(fs_.Remove(temp_.File("j/token")).ok());
  auto job = Resume("j");
  ASSERT_TRUE(job.ok() && job->BeginRun("0.1.0", "x").ok());
  EXPECT_TRUE(ReadJobToken(fs_, temp_.File("j")).ok());
  const std::string token = *ReadJobToken(fs_, temp_.File("j"));
  ASSERT_TRUE(job->BeginRun("0.1.0", "y").ok());
  EXPECT_NE(*ReadJobToken(fs_, temp_.File("j")), token) << "of each run";
}

TEST_F(ResumeTest, AbandonLeavesAResumedJobAlone) {
  Make("j");
  auto job = Resume("j");
  ASSERT_TRUE(job.ok() && job->BeginRun("0.1.0", "x").ok());
  job->Abandon();
  EXPECT_TRUE(Resume("j").ok());
}

TEST_F(ResumeTest, AJobBegunFromACheckpointKnowsItForLife) {
  Make("j", "/other/checkpoints/step-5-h0-v1.1");
  for (int run = 0; run < 2; ++run) {
    auto job = Resume("j");
    ASSERT_TRUE(job.ok());
    EXPECT_EQ(job->spec().begin_from, "/other/checkpoints/step-5-h0-v1.1");
    EXPECT_EQ(job->spec().restore_from, "");
    ASSERT_TRUE(job->BeginRun("0.1.0", "x").ok());
  }
  EXPECT_EQ(Resume("j", {}, {}, "/x")->spec().restore_from, "/x");
}

TEST_F(ResumeTest, EitherOfItsTwoFilesIsEnoughAndADamagedOneIsToldOf) {
  for (const char* damaged : {"j/run.json", "j/resolved.json"}) {
    SCOPED_TRACE(damaged);
    (void)fs_.RemoveTree(temp_.File("j"));
    Make("j");
    ASSERT_TRUE(Resume("j")->BeginRun("0.1.0", "x").ok());
    const std::string good = *ReadWholeFile(fs_, temp_.File(damaged));
    Put(damaged, "garbage");
    auto job = Resume("j");
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_EQ(job->notes().size(), 1u);
    EXPECT_THAT(job->notes()[0], ::testing::HasSubstr(temp_.File(damaged)));
    ASSERT_TRUE(fs_.Remove(temp_.File(damaged)).ok());
    EXPECT_TRUE(Resume("j").ok());
  }
}

TEST_F(ResumeTest, FilesThatContradictEachOtherOnWhatMakesTheResultAreRefused) {
  Make("j");
  ASSERT_TRUE(Resume("j")->BeginRun("0.1.0", "x").ok());
  std::string text = *ReadWholeFile(fs_, temp_.File("j/resolved.json"));
  const size_t at = text.find("\"replicas\"");
  const size_t digit = text.find_first_of("0123456789", at);
  text[digit] = text[digit] == '8' ? '9' : '8';
  Put("j/resolved.json", text);
  const absl::Status status = Resume("j").status();
  EXPECT_EQ(ExitCodeFor(status), kExitBadData) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("run.json"));
}

TEST_F(ResumeTest, AGangMayHaveAnotherSizeInEachRun) {
  for (const bool said : {true, false}) {  // or it was found out to be one when it ran
    const std::string name = said ? "said" : "found";
    NewJob made{*ResolveJob({{"workers", "2"}, {"job-dir", temp_.File(name)}}, None), {"train"}};
    made.spec.gang = said;
    ASSERT_TRUE(JobDirectory::Create(fs_, made).ok());
    for (const char* workers : {"3", "", "1", "4", ""}) {
      std::map<std::string, std::string> flags = {{"gang", "1"}};
      if (*workers != '\0') flags["workers"] = workers;
      auto job = Resume(name, flags);
      ASSERT_TRUE(job.ok()) << name << " " << workers << " " << job.status();
      if (*workers != '\0') {
        EXPECT_EQ(job->spec().workers, workers[0] - '0');
      }
      ASSERT_TRUE(job->BeginRun("0.1.0", "x").ok());
    }
    EXPECT_EQ(Resume(name)->spec().workers, 4);
  }
}

TEST_F(ResumeTest, AnOutcomeThatCannotBeReadIsNone) {
  Make("j");
  Put("j/outcome.json", std::string("\0{[", 3));
  auto job = Resume("j");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->finished().has_value());
  EXPECT_EQ(job->notes().size(), 1u);
}

TEST_F(ResumeTest, AStrictCheckpointIsForOneRun) {
  Make("j");
  auto job = Resume("j", {}, {}, "/x");
  ASSERT_TRUE(job.ok() && job->BeginRun("0.1.0", "x").ok());
  EXPECT_EQ(Resume("j")->spec().restore_from, "");
}

TEST_F(ResumeTest, WithoutAJobItSaysHowToStartOne) {
  const absl::Status status = Resume("none").status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("holds no job; start one there by everstep run --job-dir"));
}

TEST_F(ResumeTest, WhenBothAreDamagedThatIsBadDataAndNamed) {
  Make("j");
  Put("j/run.json", "{");
  Put("j/resolved.json", "{}");
  const absl::Status status = Resume("j").status();
  EXPECT_EQ(ExitCodeFor(status), kExitBadData);
  EXPECT_THAT(std::string(status.message()), HasSubstr("j/resolved.json"));
}

TEST_F(ResumeTest, ATextNamesAJobOrACheckpointInOne) {
  Make("j");
  const std::string name = "j/checkpoints/step-6-h1-v1.1";
  Put(name + "/state.index", "");
  auto point = FindResumePoint(fs_, temp_.File("j/"));
  ASSERT_TRUE(point.ok()) << point.status();
  EXPECT_EQ(point->job, temp_.File("j"));
  EXPECT_EQ(point->restore_from, "");
  for (const char* end : {"", "/", "/state", "/state.index"}) {
    point = FindResumePoint(fs_, temp_.File(name) + end);
    ASSERT_TRUE(point.ok()) << point.status();
    EXPECT_EQ(point->job, temp_.File("j")) << end;
    EXPECT_THAT(point->restore_from, ::testing::StartsWith(temp_.File(name))) << end;
  }
  Put("away/step-6/state.index", "");
  point = FindResumePoint(fs_, temp_.File("away/step-6"));
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(point->job, "");
  const absl::Status none = FindResumePoint(fs_, temp_.File("away")).status();
  EXPECT_EQ(ExitCodeFor(none), kExitConfiguration);
  EXPECT_THAT(std::string(none.message()), HasSubstr("start a job there by everstep run"));
}

TEST_F(ResumeTest, TheLatestJobIsTheOneThatWasHeardLast) {
  EXPECT_EQ(LatestJob(fs_, temp_.path()).status().code(), absl::StatusCode::kNotFound);
  Make("b");
  SleepFor(std::chrono::milliseconds(5));
  Make("a");
  Put("z/unrelated", "");
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("a"));
  JobStatus status;
  status.phase = "training";
  status.time = "9999-01-01T00:00:00.000Z";
  Put("b/status.json", ToStatusJson(status));
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("b"));
  Make("c");
  status.time = "9999-01-01T00:00:01.000Z";
  Put("c/status.json", ToStatusJson(status));
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("c")) << "it may be about to train";
  End("c", 65, {"train"});
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("b")) << "it failed before its first step";
  Put("c/checkpoints/step-9-h0-v1.1/state.index", "");
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("c")) << "it has trained";
  Make("g");
  status.time = "9999-01-01T00:00:02.000Z";
  Put("g/status.json", ToStatusJson(status));
  End("g", 1, {"train"});
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("c"));
  status.checkpoint_path = "/ckpt-1";
  Put("g/status.json", ToStatusJson(status));
  EXPECT_EQ(*LatestJob(fs_, temp_.path()), temp_.File("g")) << "its program has saved something";
  EXPECT_EQ(ExitCodeFor(FindJob(fs_, temp_.File("z")).status()), kExitBadData);
  EXPECT_EQ(*FindJob(fs_, temp_.File("b/")), temp_.File("b"));
}

}  // namespace
}  // namespace everstep
