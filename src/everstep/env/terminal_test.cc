// env: tests of the terminal.
#include "everstep/env/terminal.h"

#include <gtest/gtest.h>

#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

TEST(WriteWithin, WritesAllToAReaderThatReads) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  EXPECT_TRUE(WriteWithin(pipe->write.get(), "hello", Duration::zero()));
  char buffer[16];
  EXPECT_EQ(ReadSome(pipe->read.get(), buffer, sizeof buffer), 5);
}

TEST(WriteWithin, GivesUpOnAReaderThatDoesNot) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  const std::string much(4 << 20, 'x');
  const TimePoint start = RealClock().Now();
  EXPECT_FALSE(WriteWithin(pipe->write.get(), much, std::chrono::milliseconds(50)));
  EXPECT_LT(RealClock().Now() - start, std::chrono::seconds(5));
}

TEST(Terminal, APipeIsNone) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  EXPECT_FALSE(IsTerminal(pipe->write.get()));
  EXPECT_EQ(TerminalWidth(pipe->write.get()), 80);
}

}  // namespace
}  // namespace everstep
