// membership: messages and orders go through the wire's protos whole.
#include "everstep/membership/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace everstep {
namespace {

using ::testing::SizeIs;

View SomeView(int64_t id) {
  View view;
  view.id = {1, id};
  view.num_replicas = 2;
  view.members.push_back({{"worker", 3}, 9, "host", "127.0.0.1:7000", 0, 2});
  return view;
}

TEST(Translation, KeepsEveryFieldOfEveryMessage) {
  Hello hello{{"chief", 2}, 7, "h\xff", "a:1", {{"k", "v"}}, {3, 4}, 5, 6, ~0ull};
  auto h = std::get<Hello>(*FromProto(ToProto(WorkerMessage(hello))));
  EXPECT_EQ(h.task, hello.task);
  EXPECT_EQ(
      std::tie(h.incarnation, h.host, h.data_address, h.fingerprint, h.history, h.step, h.digest),
      std::tie(hello.incarnation, hello.host, hello.data_address, hello.fingerprint, hello.history,
               hello.step, hello.digest));
  EXPECT_EQ(h.view, hello.view);

  Beat beat{{1, 2}, 3, "input", Duration(4), {5, 6}, {7, 8, 9, 10, 11, 1.5, {{"loss", 0.25}}}};
  auto b = std::get<Beat>(*FromProto(ToProto(WorkerMessage(beat))));
  EXPECT_EQ(b.view, beat.view);
  EXPECT_EQ(std::tie(b.step, b.phase, b.in_phase, b.waits),
            std::tie(beat.step, beat.phase, beat.in_phase, beat.waits));
  EXPECT_EQ(b.scalars.values, beat.scalars.values);
  EXPECT_EQ(b.scalars.total_steps, 7);
  EXPECT_EQ(b.scalars.epoch, 8);
  EXPECT_EQ(b.scalars.epochs, 9);
  EXPECT_EQ(b.scalars.step_in_epoch, 10);
  EXPECT_EQ(b.scalars.steps_per_epoch, 11);
  EXPECT_EQ(b.scalars.examples_per_second, 1.5);

  auto lost = std::get<LinkLost>(*FromProto(ToProto(WorkerMessage(LinkLost{{1, 2}, -1, "w"}))));
  EXPECT_EQ(lost.peer, -1);
  EXPECT_EQ(lost.why, "w");
  auto closed = std::get<Closed>(*FromProto(ToProto(WorkerMessage(Closed{{1, 2}, 3, 4, 5}))));
  EXPECT_EQ(std::tie(closed.history, closed.step), std::make_tuple(History{3}, Step{4}));
  EXPECT_EQ(closed.digest, 5u);
  auto synced = std::get<Synced>(*FromProto(ToProto(WorkerMessage(Synced{{1, 2}, 3, 4}))));
  EXPECT_EQ(synced.view, (ViewId{1, 2}));
  EXPECT_EQ(synced.digest, 4u);
  for (auto reason : {LeaveReason::kFinished, LeaveReason::kToldToLeave, LeaveReason::kFailed}) {
    auto l = std::get<Leaving>(
        *FromProto(ToProto(WorkerMessage(Leaving{reason, {1, 2}, 3, 4, 65, "m"}))));
    EXPECT_EQ(l.reason, reason);
    EXPECT_EQ(std::tie(l.step, l.exit_code, l.message),
              std::make_tuple(Step{3}, 65, std::string("m")));
    EXPECT_EQ(l.digest, 4u);
  }
  auto c = std::get<CheckpointCommitted>(*FromProto(
      ToProto(WorkerMessage(CheckpointCommitted{{1, 2}, 3, 4, "/p\xff", 5, Duration(6)}))));
  EXPECT_EQ(c.view, (ViewId{1, 2}));
  EXPECT_EQ(std::tie(c.history, c.step, c.path, c.bytes, c.took),
            std::make_tuple(History{3}, Step{4}, std::string("/p\xff"), int64_t{5}, Duration(6)));
  auto n = std::get<Note>(
      *FromProto(ToProto(WorkerMessage(Note{"checkpoint_failed", 3, "no space\xff"}))));
  EXPECT_EQ(
      std::tie(n.kind, n.step, n.text),
      std::make_tuple(std::string("checkpoint_failed"), Step{3}, std::string("no space\xff")));
}

TEST(Translation, KeepsEveryFieldOfEveryOrder) {
  View view = SomeView(4);
  view.committer = 1;
  auto p = std::get<Prepare>(*FromProto(ToProto(WorkerOrder(Prepare{view, {2, 7, ~0ull, -1}}))));
  EXPECT_EQ(std::tie(p.origin.history, p.origin.step, p.origin.digest, p.origin.donor),
            std::make_tuple(History{2}, Step{7}, ~uint64_t{0}, -1));
  EXPECT_EQ(p.view.id, view.id);
  EXPECT_EQ(p.view.num_replicas, 2);
  EXPECT_EQ(p.view.committer, 1);
  ASSERT_THAT(p.view.members, SizeIs(1));
  EXPECT_EQ(p.view.members[0].data_address, "127.0.0.1:7000");
  EXPECT_EQ(p.view.members[0].replica_end, 2);
  EXPECT_EQ(std::get<Welcome>(*FromProto(ToProto(WorkerOrder(Welcome{8})))).term, 8);
  EXPECT_EQ(std::get<Close>(*FromProto(ToProto(WorkerOrder(Close{{1, 2}, "r"})))).reason, "r");
  EXPECT_EQ(std::get<Commit>(*FromProto(ToProto(WorkerOrder(Commit{{1, 2}})))).view,
            (ViewId{1, 2}));
  auto s = std::get<Stop>(*FromProto(ToProto(WorkerOrder(Stop{75, Duration(5), "r"}))));
  EXPECT_EQ(std::tie(s.code, s.grace, s.reason),
            std::make_tuple(75, Duration(5), std::string("r")));

  Spawn spawn{{"worker", 1}, 7, {{{"worker", {"a:1", "b:2"}}, {"ps", {"c:3"}}}}, {{"K", "V"}}};
  auto got = std::get<Spawn>(*FromProto(ToProto(AgentOrder(spawn))));
  EXPECT_EQ(got.task, spawn.task);
  EXPECT_EQ(std::tie(got.incarnation, got.cluster.jobs, got.settings),
            std::tie(spawn.incarnation, spawn.cluster.jobs, spawn.settings));
  auto kill = std::get<Kill>(*FromProto(ToProto(AgentOrder(Kill{7, Duration(3)}))));
  EXPECT_EQ(std::tie(kill.incarnation, kill.grace), std::make_tuple(Incarnation{7}, Duration(3)));
  EXPECT_EQ(std::get<Progress>(*FromProto(ToProto(AgentOrder(Progress{5, 2, {}})))).workers, 2);
  EXPECT_EQ(std::get<Notice>(*FromProto(ToProto(AgentOrder(Notice{"t"})))).text, "t");
  EXPECT_EQ(std::get<JobEnded>(*FromProto(ToProto(AgentOrder(JobEnded{3, "r"})))).code, 3);

  Register self{"a", "h", "addr", 2, {1, 2}, "v"};
  auto r = std::get<Register>(*FromProto(ToProto(AgentMessage(self))));
  EXPECT_EQ(std::tie(r.agent, r.host, r.address, r.slots, r.ports, r.version),
            std::tie(self.agent, self.host, self.address, self.slots, self.ports, self.version));
  EXPECT_FALSE(r.task);
  self.task = Task{"chief", 0};
  self.cluster = R"({"cluster":{"chief":["a:1"]}})";
  self.pid = 4711;
  r = std::get<Register>(*FromProto(ToProto(AgentMessage(self))));
  EXPECT_EQ(std::tie(r.agent, r.ports, r.task, r.cluster, r.pid),
            std::tie(self.agent, self.ports, self.task, self.cluster, self.pid));
  auto e = std::get<Exited>(
      *FromProto(ToProto(AgentMessage(Exited{{"worker", 1}, 7, 9, "t\xff", true, "/l"}))));
  EXPECT_EQ(std::tie(e.incarnation, e.wait_status, e.tail, e.oom, e.log),
            std::make_tuple(Incarnation{7}, 9, std::string("t\xff"), true, std::string("/l")));
}

TEST(Translation, AMessageOfNoKnownKindIsNone) {
  EXPECT_FALSE(FromProto(wire::FromWorker()));
  EXPECT_FALSE(FromProto(wire::ToWorker()));
  EXPECT_FALSE(FromProto(wire::FromAgent()));
  wire::ToAgent proof;
  proof.mutable_proof();
  EXPECT_FALSE(FromProto(proof));
}

}  // namespace
}  // namespace everstep
