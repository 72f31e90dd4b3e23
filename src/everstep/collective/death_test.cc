// collective: real processes that are killed or stopped. This program is its own member: started
// with "member" it speaks with the test over descriptor 3, in lines.
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "everstep/base/status.h"
#include "everstep/collective/test_world.h"
#include "everstep/env/environment.h"
#include "everstep/env/process.h"

namespace everstep {
namespace {

const ArenaShape kShape = {{3000, 20011, 5}, 9};
constexpr uint64_t kSeed = 5;

// Lines over a socket.
class Lines {
 public:
  explicit Lines(UniqueFd socket) : socket_(std::move(socket)) {}

  void Say(const std::string& line) {
    const std::string text = line + "\n";
    SendAll(socket_.get(), {reinterpret_cast<const std::byte*>(text.data()), text.size()}, Soon())
        .IgnoreError();
  }
  // Empty at the end of the stream or after 20 s.
  std::string Hear() {
    std::string line;
    std::byte c;
    while (ReceiveAll(socket_.get(), absl::MakeSpan(&c, 1), Soon()).ok()) {
      if (c == std::byte{'\n'}) return line;
      line.push_back(static_cast<char>(c));
    }
    return "";
  }

 private:
  UniqueFd socket_;
};

std::string DescribeError(const absl::Status& error) {
  return absl::StrCat("error ", RealClock().Now().time_since_epoch().count(), " ",
                      static_cast<int>(error.code()), " ", BlamedPeer(error), " ", error.message());
}

View ParseView(const std::string& line) {
  std::istringstream in(line);
  View view;
  size_t members = 0;
  in >> view.id.term >> view.id.id >> view.num_replicas >> members;
  for (size_t i = 0; i < members; ++i) {
    Member m;
    m.task.type = "worker";
    in >> m.task.index >> m.incarnation >> m.host >> m.data_address >> m.replica_begin >>
        m.replica_end;
    view.members.push_back(m);
  }
  return view;
}

std::string FormatView(const View& view) {
  std::string line =
      absl::StrCat(view.id.term, " ", view.id.id, " ", view.num_replicas, " ", view.members.size());
  for (const Member& m : view.members) {
    absl::StrAppend(&line, " ", m.task.index, " ", m.incarnation, " ", m.host, " ", m.data_address,
                    " ", m.replica_begin, " ", m.replica_end);
  }
  return line;
}

// One round, checked; the first error ends it.
absl::Status CheckedRound(Communicator& c, Round round, Duration patience) {
  std::vector<Ticket> tickets;
  for (int b = 0; b < static_cast<int>(kShape.bucket_sizes.size()); ++b) {
    const std::vector<Part> parts = FillParts(c, kShape, kSeed, round, b);
    EV_ASSIGN_OR_RETURN(const Ticket t, c.Reduce(round, b, parts, After(RealClock(), patience)));
    tickets.push_back(t);
  }
  for (int b = 0; b < static_cast<int>(tickets.size()); ++b) {
    EV_RETURN_IF_ERROR(c.Wait(tickets[b], After(RealClock(), patience)));
    if (!ResultIsDefined(c, kShape, kSeed, round, b)) return absl::DataLossError("torn result");
  }
  return c.Conclude(round, Vote{round, {}, 0, 0}, After(RealClock(), patience)).status();
}

// argv: member INCARNATION SECRET STALL_ROUND PATIENCE_MS
int RunMember(char** argv) {
  SetFloatEnvironment();
  Lines lines{UniqueFd(3)};
  EndpointOptions options;
  options.incarnation = std::stoull(argv[2]);
  options.first_port = options.last_port = 0;
  auto endpoint = Endpoint::Make(JobSecret::FromHex(argv[3]).value(), options).value();
  if (!endpoint->Prepare(kShape).ok()) return 1;
  const Round stall = std::stoll(argv[4]);
  const Duration patience = std::chrono::milliseconds(std::stoll(argv[5]));
  lines.Say(endpoint->data_address());
  const float* memory = nullptr;
  while (true) {
    const std::string order = lines.Hear();
    if (order.empty()) return 0;
    auto c = endpoint->Connect(ParseView(order), options.incarnation, Soon());
    if (!c.ok()) {
      lines.Say(DescribeError(c.status()));
      continue;
    }
    const bool moved = memory != nullptr && memory != (*c)->result().data();
    memory = (*c)->result().data();
    lines.Say(moved ? "connected moved" : "connected");
    absl::Status error;
    for (Round round = 0; error.ok() && round < 60; ++round) {
      if (round == stall) {
        lines.Say("stalling");
        SleepFor(std::chrono::hours(1));
      }
      error = CheckedRound(**c, round, patience);
    }
    lines.Say(error.ok() ? "finished" : DescribeError(error));
  }
}

struct Error {
  int64_t at_ns = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  int blamed = -1;
  std::string message;
};

Error ParseError(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  int code = 0;
  Error error;
  in >> word >> error.at_ns >> code >> error.blamed;
  EXPECT_EQ(word, "error") << line;
  error.code = static_cast<absl::StatusCode>(code);
  std::getline(in, error.message);
  return error;
}

// Members as processes.
class ProcessWorld {
 public:
  // Member `stalling` stops working at round `stall`, without a word to the others.
  ProcessWorld(View view, int stalling, Round stall, int patience_ms) : view_(std::move(view)) {
    const std::string secret = JobSecret::Generate().ToHexForFile();
    for (int r = 0; r < static_cast<int>(view_.members.size()); ++r) {
      auto pair = MakeSocketPair().value();
      SpawnOptions options;
      options.argv = {ProgramPath(),
                      "member",
                      std::to_string(view_.members[r].incarnation),
                      secret,
                      std::to_string(r == stalling ? stall : -1),
                      std::to_string(patience_ms)};
      options.environment = CurrentEnvironment();
      options.descriptors = {{pair.second.get(), 3}};
      processes_.push_back(Process::Spawn(options).value());
      lines_.emplace_back(std::move(pair.first));
    }
    for (int r = 0; r < static_cast<int>(lines_.size()); ++r) {
      view_.members[r].data_address = lines_[r].Hear();
    }
  }

  const View& view() const { return view_; }
  Lines& lines(int rank) { return lines_[rank]; }
  Process& process(int rank) { return processes_[rank]; }

  void Connect(const View& view, const std::vector<int>& who) {
    for (int r : who) lines_[r].Say(FormatView(view));
  }

 private:
  View view_;
  std::vector<Process> processes_;
  std::vector<Lines> lines_;
};

int64_t NowNs() { return RealClock().Now().time_since_epoch().count(); }

class Death : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Death, EndsBlockedCallsWithin100MillisecondsNamingTheDead) {
  ProcessWorld world(ViewOf(GetParam(), 6), /*stalling=*/2, /*stall=*/3, /*patience_ms=*/20000);
  world.Connect(world.view(), {0, 1, 2});
  for (int r : {0, 1, 2}) ASSERT_EQ(world.lines(r).Hear(), "connected");
  ASSERT_EQ(world.lines(2).Hear(), "stalling");
  SleepFor(std::chrono::milliseconds(100));  // the others are asleep in Wait by now
  const int64_t killed = NowNs();
  world.process(2).Signal(SIGKILL);
  for (int r : {0, 1}) {
    const Error error = ParseError(world.lines(r).Hear());
    EXPECT_EQ(error.code, absl::StatusCode::kUnavailable);
    EXPECT_NE(error.message.find("worker:2 (rank 2)"), std::string::npos) << error.message;
    EXPECT_EQ(error.blamed, 2) << error.message;
    EXPECT_LT(error.at_ns - killed, 100'000'000);
    RecordProperty("noticed_us", static_cast<int>((error.at_ns - killed) / 1000));
  }

  // The survivors go on without it, at once.
  View next = ViewOf({GetParam()[0], GetParam()[1]}, 6, /*id=*/2);
  for (int r : {0, 1}) next.members[r].data_address = world.view().members[r].data_address;
  world.Connect(next, {0, 1});
  for (int r : {0, 1}) {
    EXPECT_EQ(world.lines(r).Hear(), "connected");
    EXPECT_EQ(world.lines(r).Hear(), "finished");
  }
}

TEST_P(Death, InTheMiddleOfWorkLeavesNoTornResult) {
  for (int ms : {5, 17, 31}) {
    ProcessWorld world(ViewOf(GetParam(), 6), -1, -1, 20000);
    world.Connect(world.view(), {0, 1, 2});
    for (int r : {0, 1, 2}) ASSERT_EQ(world.lines(r).Hear(), "connected");
    SleepFor(std::chrono::milliseconds(ms));
    world.process(1).Signal(SIGKILL);
    for (int r : {0, 2}) {
      const Error error = ParseError(world.lines(r).Hear());
      EXPECT_EQ(error.code, absl::StatusCode::kUnavailable) << error.message;
      EXPECT_NE(error.message.find("worker:"), std::string::npos) << error.message;
    }
  }
}

TEST_P(Death, AStoppedMemberIsNamedAtTheDeadline) {
  ProcessWorld world(ViewOf(GetParam(), 6), /*stalling=*/2, /*stall=*/3, /*patience_ms=*/300);
  world.Connect(world.view(), {0, 1, 2});
  for (int r : {0, 1, 2}) ASSERT_EQ(world.lines(r).Hear(), "connected");
  ASSERT_EQ(world.lines(2).Hear(), "stalling");
  world.process(2).Signal(SIGSTOP);
  int named = 0;
  for (int r : {0, 1}) {
    const Error error = ParseError(world.lines(r).Hear());
    if (error.code == absl::StatusCode::kDeadlineExceeded) {
      EXPECT_NE(error.message.find("worker:2 (rank 2)"), std::string::npos) << error.message;
      EXPECT_NE(error.message.find("round 3, bucket 0"), std::string::npos) << error.message;
      ++named;
    }
  }
  EXPECT_GE(named, 1);  // the other may hear of it from the first one's farewell

  // It may wake and write into what it has mapped: the neighbours move to fresh memory.
  View next = ViewOf({GetParam()[0], GetParam()[1]}, 6, /*id=*/2);
  for (int r : {0, 1}) next.members[r].data_address = world.view().members[r].data_address;
  world.Connect(next, {0, 1});
  for (int r : {0, 1}) {
    const bool neighbour = GetParam()[r] == GetParam()[2];
    EXPECT_EQ(world.lines(r).Hear(), neighbour ? "connected moved" : "connected");
    EXPECT_EQ(world.lines(r).Hear(), "finished");
  }
}

std::string NameOfLinks(const ::testing::TestParamInfo<std::vector<std::string>>& info) {
  return std::vector<std::string>{"SharedMemory", "Tcp", "Mixed"}[info.index];
}

INSTANTIATE_TEST_SUITE_P(Links, Death,
                         ::testing::Values(std::vector<std::string>{"a", "a", "a"},
                                           std::vector<std::string>{"a", "b", "c"},
                                           std::vector<std::string>{"a", "b", "b"}),
                         NameOfLinks);

}  // namespace
}  // namespace everstep

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "member") return everstep::RunMember(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
