// membership: a job of processes that were started by hand, for tests of Decide.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {

inline constexpr char kTwo[] = R"({"cluster":{"worker":["a.net:29711","b.net:29711"]}})";
inline constexpr char kFour[] =
    R"({"cluster":{"worker":["a.net:29711","b.net:29711","c.net:29711","d.net:29711"]}})";
inline constexpr char kWithChief[] =
    R"({"cluster":{"chief":["a.net:29711"],"worker":["b.net:29711","c.net:29711"]}})";

// Four workers, a process each, on the hosts a to d.
class Claims : public ::testing::Test {
 protected:
  Claims() {
    job.options.cluster = kFour;
    job.options.max_restarts = 10;
  }
  void Come(int index, const std::string& life = "") {
    const std::string host(1, static_cast<char>('a' + index));
    job.Claims(host + life, host, absl::StrCat("worker:", index), kFour);
  }
  void AllCome() {
    for (int i = 0; i < 4; ++i) Come(i);
  }
  // The process with worker 3 is gone for good, and the others have ended for that.
  void LoseTheLast() {
    job.StreamBreaks(3);
    job.Feed(AgentStreamLost{"d"});
    job.Pass(3 * kSecond);
    for (int i : {0, 1, 2}) job.Exits(i, ExitedWith(75));
    job.Pass(2 * kSecond);
  }
  std::string LastNotice(const std::string& agent) {
    const auto notices = job.AgentGot<Notice>(agent);
    return notices.empty() ? "" : notices.back().text;
  }
  // That agent alone was told to end, with 78; the others have a line of it and go on.
  void ExpectRefused(const std::string& agent, const std::string& text) {
    const auto ends = job.AgentGot<JobEnded>(agent);
    ASSERT_THAT(ends, ::testing::SizeIs(1)) << agent;
    EXPECT_EQ(ends[0].code, kExitConfiguration);
    EXPECT_THAT(ends[0].reason, ::testing::HasSubstr(text));
    EXPECT_EQ(ends[0].reason.find('\n'), std::string::npos);
    EXPECT_THAT(job.AgentGot<Spawn>(agent), ::testing::IsEmpty());
    EXPECT_EQ(job.state.agents.count(agent), 0u);
    EXPECT_FALSE(job.end);
  }

  TestJob job{4};
};

}  // namespace everstep
