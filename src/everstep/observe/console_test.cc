// observe: tests of the console.
#include "everstep/observe/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

using testing::HasSubstr;

class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() : out_(*MakePipe()), err_(*MakePipe()) {
    SetNonBlocking(out_.read.get());
    SetNonBlocking(err_.read.get());
  }
  static std::string Read(const Pipe& pipe) {
    std::string text;
    char buffer[65536];
    ptrdiff_t n;
    while ((n = ReadSome(pipe.read.get(), buffer, sizeof buffer)) > 0) text.append(buffer, n);
    return text;
  }
  Pipe out_, err_;
};

TEST_F(ConsoleTest, NamesTheProcessAndKeepsItsStream) {
  Console console(out_.write.get(), err_.write.get(), RealClock());
  console.ProcessLine("worker:0", false, "hello");
  console.ProcessLine("worker:1", true, "oh");
  console.ProcessLine("", false, "of nobody");
  console.Say("done");
  console.Say("a\nb\n");
  EXPECT_EQ(Read(out_), "worker:0 | hello\nof nobody\n");
  EXPECT_EQ(Read(err_), "worker:1 | oh\ndone\na\nb\n");
}

class FakeClock : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{};
};

TEST_F(ConsoleTest, ProgressIsPlainLinesWhereThereIsNoTerminal) {
  FakeClock clock;
  Console console(out_.write.get(), err_.write.get(), clock);
  Scalars state;
  state.step_in_epoch = 3;
  state.total_steps = 10;
  console.ShowProgress(state, 1);
  clock.now += std::chrono::seconds(11);
  console.ShowProgress(state, 1);
  console.ShowProgress(state, 1);
  const std::string text = Read(err_);
  EXPECT_THAT(text, HasSubstr("step 3/10"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << "not more than one in 10 s";
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST_F(ConsoleTest, AReaderThatDoesNotReadHoldsUpOnceAndIsToldWhatItMissed) {
  Console console(out_.write.get(), err_.write.get(), RealClock(), std::chrono::milliseconds(100));
  const std::string line(8000, 'x');
  const TimePoint start = RealClock().Now();
  for (int i = 0; i < 200; ++i) console.ProcessLine("worker:0", false, line);
  EXPECT_LT(RealClock().Now() - start, std::chrono::seconds(5));
  Read(out_);
  console.ProcessLine("worker:0", false, "again");
  const std::string text = Read(out_);
  EXPECT_THAT(text, HasSubstr("lines were not shown"));
  EXPECT_THAT(text, HasSubstr("worker:0 | again\n"));
}

}  // namespace
}  // namespace everstep
