// supervise: tests of the output of processes.
#include "everstep/supervise/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> Split(const std::vector<std::string>& chunks) {
  std::vector<std::string> lines;
  LineSplitter splitter;
  auto take = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& chunk : chunks) splitter.Feed(chunk, take);
  splitter.Finish(take);
  return lines;
}

TEST(LineSplitter, JoinsWhatComesInParts) {
  EXPECT_THAT(Split({"a\nb", "c\n", "\nd"}), ElementsAre("a", "bc", "", "d"));
  EXPECT_THAT(Split({"a", "\n"}), ElementsAre("a"));
  EXPECT_THAT(Split({}), ElementsAre());
}

TEST(LineSplitter, IsSafeForAnyBytes) {
  const std::string bytes("\0\xff\x01", 3);
  EXPECT_THAT(Split({bytes + "\n"}), ElementsAre(bytes));
}

TEST(LineSplitter, CutsALineWithoutEndIntoPieces) {
  const size_t most = LineSplitter::kMaxLine;
  const auto lines = Split({std::string(most * 2 + 10, 'x'), "y\n"});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), most);
  EXPECT_EQ(lines[1].size(), most);
  EXPECT_EQ(lines[2], std::string(10, 'x') + "y");
  EXPECT_THAT(Split({std::string(most, 'x'), "\n", "z"}), ElementsAre(std::string(most, 'x'), "z"));
}

class OutputPumpTest : public testing::Test {
 protected:
  OutputPumpTest()
      : pump_(
            RealFileSystem(),
            [this](const Task& task, OutputStream stream, std::string_view line) {
              std::lock_guard<std::mutex> lock(mutex_);
              lines_.push_back(task.ToString() + (stream == OutputStream::kErr ? " E " : " O ") +
                               std::string(line));
            },
            [](OutputStream stream) { return stream == OutputStream::kErr; }) {}

  struct Writer {
    UniqueFd out, err;
  };
  Writer Add(Incarnation incarnation, const std::string& log) {
    absl::StatusOr<Pipe> out = MakePipe(), err = MakePipe();
    pump_.Add({"worker", static_cast<int>(incarnation)}, incarnation, std::move(out->read),
              std::move(err->read), {log, libraries_});
    return {std::move(out->write), std::move(err->write)};
  }
  std::vector<std::string> lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  std::string Log() {
    EXPECT_TRUE(pump_.Flush(seconds(5)));
    return *ReadWholeFile(RealFileSystem(), log_);
  }

  TempDirectory temp_;
  const std::string log_ = temp_.File("logs/worker_1/1.log");
  std::string libraries_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  OutputPump pump_;
};

TEST_F(OutputPumpTest, ShowsLinesAndLogsBytes) {
  Writer w = Add(1, log_);
  WriteAll(w.out.get(), "a\nb");
  EXPECT_EQ(pump_.Finish(1, seconds(5)), "a\nb\n");
  EXPECT_THAT(lines(), ElementsAre("worker:1 O a", "worker:1 O b"));
  EXPECT_EQ(Log(), "a\nb") << "as it was, without a name in front or an end added";
}

TEST_F(OutputPumpTest, TellsTheStreamsApart) {
  Writer w = Add(1, log_);
  WriteAll(w.err.get(), "bad\n");
  pump_.Finish(1, seconds(5));
  EXPECT_THAT(lines(), ElementsAre("worker:1 E bad"));
}

TEST_F(OutputPumpTest, DoesNotWaitForWhoeverStillHoldsThePipe) {
  Writer w = Add(1, log_);
  WriteAll(w.out.get(), "a\n");
  EXPECT_EQ(pump_.Finish(1, seconds(30)), "a\n");
  EXPECT_TRUE(pump_.Flush(seconds(5)));
}

TEST_F(OutputPumpTest, KeepsTheLast20Lines) {
  Writer w = Add(1, log_);
  for (int i = 0; i < 100; ++i) WriteAll(w.out.get(), std::to_string(i) + "\n");
  const std::string tail = pump_.Finish(1, seconds(5));
  EXPECT_THAT(tail, StartsWith("80\n"));
  EXPECT_THAT(tail, EndsWith("99\n"));
}

TEST_F(OutputPumpTest, ShowsTheLastFormOfALineDrawnOver) {
  Writer w = Add(1, log_);
  WriteAll(w.out.get(), "10%\r20%\r30%\nwindows\r\n");
  pump_.Finish(1, seconds(5));
  EXPECT_THAT(lines(), ElementsAre("worker:1 O 30%", "worker:1 O windows"));
  EXPECT_EQ(Log(), "10%\r20%\r30%\nwindows\r\n");
}

TEST_F(OutputPumpTest, WithoutALogTheLinesComeAllTheSame) {
  WriteAll(1, "");
  ASSERT_TRUE(RealFileSystem()
                  .OpenForWriting(temp_.File("in-the-way"), FileSystem::Create::kExclusive)
                  .ok());
  Writer w = Add(1, temp_.File("in-the-way/x.log"));
  WriteAll(w.out.get(), "a\nb\n");
  pump_.Finish(1, seconds(5));
  const auto got = lines();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_THAT(got, Contains(AllOf(HasSubstr("[not in its log:"), HasSubstr("in-the-way"))));
  EXPECT_THAT(got, Contains("worker:1 O b"));
}

TEST_F(OutputPumpTest, BytesThatAreNoTextAreInTheLogOnlyAndThatIsSaidOnce) {
  Writer w = Add(1, log_);
  const std::string bytes =
      "a\n" + std::string(50, '\x01') + "\n" + std::string(50, '\xff') + "\n\x1b[2Jb\n";
  WriteAll(w.out.get(), bytes);
  const std::string note = "[bytes that are no text: they are in the log only]";
  EXPECT_EQ(pump_.Finish(1, seconds(5)), "a\n" + note + "\nb\n");
  EXPECT_THAT(lines(), ElementsAre("worker:1 O a", "worker:1 O " + note, "worker:1 O b"));
  EXPECT_EQ(Log(), bytes);
}

TEST_F(OutputPumpTest, WhoWantsTheBytesOfAStreamGetsThemAndTheLastLinesAreStillText) {
  Writer w = Add(1, log_);
  WriteAll(w.err.get(), std::string("old\ra\0\xff\x1b[2Jb\n", 13) + std::string(50, '\x01') + "\n");
  EXPECT_EQ(pump_.Finish(1, seconds(5)),
            "a??b\n[bytes that are no text: they are in the log only]\n");
  EXPECT_THAT(lines(), ElementsAre("worker:1 E " + std::string("a\0\xff\x1b[2Jb", 8),
                                   "worker:1 E " + std::string(50, '\x01')));
}

TEST_F(OutputPumpTest, WhatLibrariesSayForDebuggingIsInAFileOfItsOwn) {
  libraries_ = temp_.File("logs/worker_1/1.libs.log");
  Writer w = Add(1, log_);
  const std::string chatter = "h:1:2 [0] NCCL INFO Bootstrap\n";
  const std::string warning = "h:1:2 [0] NCCL WARN it failed\n";
  WriteAll(w.err.get(), "mine\n" + chatter + warning);
  WriteAll(w.out.get(), chatter);
  const std::string tail = pump_.Finish(1, seconds(5));
  EXPECT_THAT(tail, AllOf(HasSubstr("mine\n"), HasSubstr(warning)));
  EXPECT_THAT(lines(), testing::SizeIs(3)) << "what is on standard output is the program's own";
  EXPECT_EQ(Log().size(), 5 + warning.size() + chatter.size());
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), libraries_), chatter);
}

TEST_F(OutputPumpTest, WhatIsWrittenOnStandardErrorCanBeCaught) {
  Writer w = Add(1, log_);
  EXPECT_EQ(pump_.CaptureOf(2), nullptr);
  const std::shared_ptr<Capture> capture = pump_.CaptureOf(1);
  WriteAll(w.err.get(), "before\n");
  while (lines().empty()) SleepFor(std::chrono::milliseconds(1));
  capture->Begin();
  WriteAll(w.err.get(), "File \"a.py\", line 1\n");
  WriteAll(w.out.get(), "not this\n");
  EXPECT_THAT(pump_.Finish(1, seconds(5)), HasSubstr("line 1\n"));
  EXPECT_EQ(capture->size(), 20u);
  EXPECT_EQ(capture->Take(), "File \"a.py\", line 1\n");
  EXPECT_EQ(capture->size(), 0u);
}

TEST_F(OutputPumpTest, ManyAtOnce) {
  std::vector<Writer> writers;
  for (int i = 1; i <= 30; ++i) writers.push_back(Add(i, temp_.File(std::to_string(i) + ".log")));
  for (int round = 0; round < 50; ++round) {
    for (Writer& w : writers) WriteAll(w.out.get(), std::string(1000, 'x') + "\n");
  }
  for (int i = 1; i <= 30; ++i) pump_.Finish(i, seconds(5));
  EXPECT_EQ(lines().size(), 1500u);
}

}  // namespace
}  // namespace everstep
