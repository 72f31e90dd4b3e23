// job: rules of terms.
#include "everstep/job/term.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/process.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class TermTest : public ::testing::Test {
 protected:
  TermTest() {
    EXPECT_TRUE(fs_.CreateDirectories("/j").ok());
    EXPECT_TRUE(fs_.SyncDirectory("/").ok());
    options_.poll = milliseconds(5);
    options_.still_for = milliseconds(150);
    options_.on_wait = [this](const std::string& line, Duration) { said_.push_back(line); };
  }
  // A holder of whom this host knows nothing.
  void Elsewhere(int64_t term, int64_t counter, Duration grace = Duration::zero(),
                 bool ended = false) {
    TermHolder holder;
    holder.term = term;
    holder.process = {"far", "boot", "pid:[1]", 77, 5};
    holder.grace = grace;
    holder.counter = counter;
    holder.ended = ended;
    ASSERT_TRUE(fs_.CreateDirectories("/j/terms").ok());
    ASSERT_TRUE(PublishFile(fs_, TermPath("/j", term), ToTermJson(holder)).ok());
  }
  absl::StatusOr<Term> Take() { return TakeTerm(fs_, "/j", options_); }

  MemoryFileSystem fs_;
  TakeTermOptions options_;
  std::vector<std::string> said_;
};

TEST_F(TermTest, TheFirstIsOneAndSaysWhoHoldsIt) {
  options_.grace = seconds(7);
  const auto term = Take();
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_EQ(term->number(), 1);
  fs_.Crash();
  const auto newest = NewestTerm(fs_, "/j");
  ASSERT_TRUE(newest.ok() && newest->has_value()) << "it is not durable";
  EXPECT_EQ((*newest)->process.pid, OwnIdentity().pid);
  EXPECT_EQ((*newest)->process.start_time, OwnIdentity().start_time);
  EXPECT_EQ((*newest)->grace, seconds(7));
  EXPECT_FALSE(IsOver(**newest));
}

TEST_F(TermTest, OneThatEndedIsFollowedAtOnce) {
  auto first = Take();
  ASSERT_TRUE(first.ok() && first->End().ok());
  const auto second = Take();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->number(), 2);
  EXPECT_THAT(said_, ::testing::IsEmpty());
}

TEST_F(TermTest, TheHighestNumberDecidesNotTheLastName) {
  Elsewhere(9, 0, {}, true);
  Elsewhere(10, 0, {}, true);
  EXPECT_EQ(Take()->number(), 11);
}

TEST_F(TermTest, OneWhoseProcessOfThisHostIsGoneIsFollowedAtOnce) {
  Elsewhere(1, 0, seconds(60));
  TermHolder gone;
  gone.term = 2;
  gone.process = OwnIdentity();
  gone.process.start_time -= 1;
  gone.grace = seconds(60);
  ASSERT_TRUE(PublishFile(fs_, TermPath("/j", 2), ToTermJson(gone)).ok());
  EXPECT_EQ(Take()->number(), 3);
  EXPECT_THAT(said_, ::testing::IsEmpty());
}

TEST_F(TermTest, OneThatStandsStillIsFollowedNotBefore) {
  Elsewhere(4, 3, seconds(60));
  const TimePoint start = RealClock().Now();
  const auto term = Take();
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_EQ(term->number(), 5);
  EXPECT_GE(RealClock().Now() - start, options_.still_for);
  EXPECT_THAT(said_, ::testing::ElementsAre(
                         "waiting up to 60 s for the run that holds /j (pid 77 on host far)"));
}

TEST_F(TermTest, AFileThatIsNoTermStandsStillLikeAnyOther) {
  ASSERT_TRUE(fs_.CreateDirectories("/j/terms").ok());
  ASSERT_TRUE(PublishFile(fs_, TermPath("/j", 2), "").ok());
  EXPECT_EQ(Take()->number(), 3);
  EXPECT_THAT(said_, ::testing::ElementsAre(HasSubstr("the run of term 2")));
}

TEST_F(TermTest, OneThatLivesIsWaitedForItsGraceThenNamed) {
  // Its counter is renewed all the time; still_for + 1 s is the least that is waited.
  std::atomic<bool> stop{false};
  Elsewhere(1, 0);
  std::thread holder([&] {
    for (int64_t counter = 1; !stop; ++counter) {
      Elsewhere(1, counter);
      SleepFor(milliseconds(10));
    }
  });
  const absl::Status status = Take().status();
  stop = true;
  holder.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ExitCodeFor(status), kExitNotNow);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/j is in use by the run of term 1 (pid 77 on host far)"));
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(TermTest, OneThatEndsWhileItIsWaitedForIsFollowed) {
  Elsewhere(1, 0, seconds(60));
  options_.still_for = seconds(60);
  std::thread holder([&] {
    SleepFor(milliseconds(50));
    Elsewhere(1, 1, seconds(60), true);
  });
  const auto term = Take();
  holder.join();
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_EQ(term->number(), 2);
}

TEST_F(TermTest, WaitingCanBeGivenUp) {
  Elsewhere(1, 0, seconds(60));
  options_.still_for = seconds(60);
  options_.give_up = [] { return true; };
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(TermTest, TwoNeverHoldTheSame) {
  std::vector<int64_t> numbers(8);
  std::vector<std::thread> threads;
  TempDirectory temp;
  options_.on_wait = nullptr;
  options_.still_for = milliseconds(20);
  options_.poll = milliseconds(1);
  for (int64_t& number : numbers) {
    threads.emplace_back([&] {
      const auto term = TakeTerm(RealFileSystem(), temp.path(), options_);
      if (term.ok()) number = term->number();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(numbers.begin(), numbers.end());
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const std::vector<std::string> names = *RealFileSystem().List(temp.File("terms"));
  for (const std::string& name : names) {
    EXPECT_EQ(name.find('.'), std::string::npos) << "left behind";
  }
}

TEST_F(TermTest, RenewingRaisesTheCounterAndFindsAHigherTerm) {
  auto term = Take();
  ASSERT_TRUE(term.ok() && term->Renew().ok());
  EXPECT_EQ((*NewestTerm(fs_, "/j"))->counter, 1);
  EXPECT_FALSE(*term->IsSuperseded());
  Elsewhere(2, 0);
  ASSERT_TRUE(term->Renew().ok()) << "its own file is still its own";
  EXPECT_TRUE(*term->IsSuperseded());
}

TEST_F(TermTest, ADiskThatFailsIsNamedAndLeavesNoTerm) {
  ASSERT_TRUE(fs_.CreateDirectories("/j/terms").ok());
  for (int operations = 0; operations < 4; ++operations) {
    fs_.FailAfter(operations);
    const absl::Status status = Take().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << operations;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot take the job directory /j"));
    fs_.FailAfter(-1);
    EXPECT_FALSE((*NewestTerm(fs_, "/j")).has_value()) << operations;
  }
}

TEST(TermJson, ReadsBackAndRefusesOtherFormats) {
  TermHolder a{3, {"h", "b", "pid:[2]", 4, 5}, milliseconds(1500), 6, true};
  const auto b = FromTermJson(ToTermJson(a), "t");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(ToTermJson(*b), ToTermJson(a));
  EXPECT_EQ(b->process.start_time, 5);
  EXPECT_EQ(b->grace, milliseconds(1500));
  EXPECT_FALSE(FromTermJson(R"({"format":"everstep.term.v2"})", "t").ok());
  EXPECT_FALSE(FromTermJson(R"({"format":"everstep.term.v1","grace_seconds":1e300})", "t").ok());
}

}  // namespace
}  // namespace everstep
