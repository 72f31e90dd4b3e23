// membership: one call of Decide in progress. Internal to the room; the rules are told in decide.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "everstep/membership/decide.h"

namespace everstep {

class Decider {
 public:
  Decider(TimePoint now, JobState& state) : now_(now), state_(state) {}

  void Begin();  // before the event
  void On(const AgentSaid& said);
  void On(const AgentStreamLost& lost);
  void On(const WorkerSaid& said);
  void On(const WorkerStreamLost& lost);
  void On(const StopAsked& asked);
  void On(const Journaled& journaled);
  void On(const Superseded&);
  void On(const Tick&);
  Decision Finish();

 private:
  // decide_start.cc: from the first agent to the commit of a view.
  void OnRegister(const Register& self);
  void RepeatOrders(const AgentEntry& agent, bool was_lost);
  std::string WhyRefused(const Register& self) const;
  int Needed() const;  // slots
  void StartIfEnough();
  void WaitForAgents();
  void EndForMissing(const std::vector<Task>& missing, const std::string& here);
  std::string WaitingLine() const;
  void OnHello(WorkerEntry& worker, const Hello& hello);
  void Greet(WorkerEntry& worker);
  void CatchUp(WorkerEntry& worker);
  bool CheckSettings(const WorkerEntry& worker);
  bool CheckFingerprint(const WorkerEntry& worker);
  void PrepareView();
  void EndForRestoredStates();
  void CommitView();
  void OnSynced(WorkerEntry& worker, const Synced& synced);
  void WaitForWorkers();

  // decide_claims.cc: tasks of processes that were started by hand, and who is missing.
  const AgentEntry* HolderOf(const Task& task) const;  // that is not lost; nullptr: nobody
  std::string ClusterText() const;
  std::string WhyNotThatTask(const Task& task) const;
  std::string WhyNotThatCluster(const Register& self) const;
  bool AdmitClaim(const Register& self);
  bool LivedAfter(const AgentEntry& holder, TimePoint since) const;
  void SettleDoubts();
  void Refuse(const Register& self, std::string why);
  void NoteDouble(const Register& first, const Register& second);
  void TakeOver(const std::string& holder, const Register& self);
  bool DismissIfReplaced(const AgentEntry& agent);
  void TellLateClaimer(const Register& self);
  void SeeGone(const AgentEntry& agent);
  void SeeBack(const Register& self);
  bool ByClaims() const;  // tasks are waited for by their names
  std::string SeenText(const LastSeen& seen) const;
  std::string MissingText(const Task& task) const;
  std::string WhereTheyWere() const;
  std::string MissingList(const std::vector<Task>& missing, size_t shown) const;

  // decide_spawn.cc: which tasks there are, where they run, the orders to start them.
  struct Place {
    const AgentEntry* agent = nullptr;
    int slot = 0;
  };
  std::vector<Place> FreePlaces(bool claimed) const;
  std::optional<Place> FreePlaceFor(const Task& task) const;
  struct Placing {
    std::map<Task, Place> places;
    std::vector<Task> missing;  // those for which there is none
  };
  Placing PlaceTasks() const;
  void OrderWorkers();
  void Put(WorkerEntry& worker, const Place& place) const;
  void CountAgain();
  void MakeCluster();
  Spawn SpawnOf(const WorkerEntry& worker) const;
  void OnPorts(const std::string& agent, const Ports& ports);

  // decide_gang.cc: a program that is only seen from outside.
  bool IsGang() const { return state_.restarts.gang; }
  bool HasServers() const { return state_.options.parameter_servers > 0; }
  void RecogniseGang();
  void BeginGangLife(TimePoint began);
  void BecomeNative();
  void WatchGang();
  void OnGangExit(WorkerEntry& worker, const Exited& exited);
  bool Decides(const WorkerEntry& worker) const;  // its success is the job's
  void FinishIfTrainersHave();
  void WatchFinishing();
  void EndGangDone();
  void DiagnoseGang();
  std::vector<WorkerEntry*> FailedOnes();  // the cause first
  void FailAll(const WorkerEntry& cause);
  bool IsEarly(const WorkerEntry& worker) const;
  std::string GangRestartText(const Fault& fault, Duration back_off) const;
  void TellConsequences();

  // decide_alone.cc: tasks of a gang that are restarted while the others go on.
  void FailAlone(WorkerEntry& cause);
  std::vector<WorkerEntry*> RestartedWith(WorkerEntry& cause);
  void BeginRespawn(WorkerEntry& worker, Duration back_off);
  void WatchRespawns();
  bool FindPlace(WorkerEntry& worker);
  void RespawnNow(WorkerEntry& worker);

  // decide_hang.cc: from what agents see of processes to who hangs.
  void OnVitals(const Vitals& vitals);
  bool IsFresh(const WorkerEntry& worker) const;
  Duration SilenceOf(const WorkerEntry& worker) const;
  bool IsSilent(const WorkerEntry& worker) const;  // longer than it may
  bool GoesOn(const WorkerEntry& worker) const;
  std::vector<WorkerEntry*> Members();  // alive, and no evaluator
  WorkerEntry* StoppedOne();            // for longest; nullptr: none is
  void LookForHang();
  bool LookForStopped();
  bool AllStopped();
  bool IsStopped(const WorkerEntry& worker) const;
  void LookForSilence();
  void BeginHang(bool strong, const WorkerEntry& found, const std::string& text);
  void OnStacks(const Stacks& stacks);
  void WatchHang();
  void ActOnHang();
  const WorkerEntry* CulpritOf(const std::vector<const WorkerEntry*>& among,
                               std::string* reasons) const;

  // decide_seen.cc: what a gang has done, as far as it is seen.
  void OnCheckpointSeen(const CheckpointSeen& seen);
  void OnAgentNote(const std::string& agent, const Note& note);
  void SeeProgress(const WorkerEntry& worker);
  void CloseIncidents(const WorkerEntry* worker);
  void WarnOfNoCheckpoint();

  // decide_train.cc: while a view runs.
  void OnBeat(WorkerEntry& worker, const Beat& beat);
  void OnLeaving(WorkerEntry& worker, const Leaving& leaving);
  void HeedToldToLeave();
  void FinishIfAllLeft();
  void TellOfSilence();
  void LookForForeverWaiting();
  void SendProgress();

  // decide_failure.cc: from the first sign of a failure to its cause.
  void OnLinkLost(WorkerEntry& worker, const LinkLost& lost);
  void OnExited(const Exited& exited);
  void OnLastWords(WorkerEntry& worker, const WorkerMessage& message);
  void OnExitBeforeEnd(WorkerEntry& worker, const Exited& exited);
  void NoteExit(WorkerEntry& worker, const Exited& exited, const char* when = "");
  Trouble& TroubleOf(WorkerEntry& worker);
  void Prove(WorkerEntry& worker, int code, std::string what);
  void ProveFailed(WorkerEntry& worker, const Leaving& leaving);
  void Forget(WorkerEntry& worker);  // it came back
  void GiveUpLost();
  void GiveUp(AgentEntry& agent);
  void CloseView(const std::string& reason);
  void Diagnose();
  const WorkerEntry* Cause() const;
  void NameBrokenLink();
  Fault FaultOf(const WorkerEntry& cause) const;
  Step StepReached() const;  // by the members, as far as they have said; -1: nobody has

  // decide_restart.cc: from the cause of a failure to the orders to start again.
  void Fail(Fault fault, JobRecord record, const std::string& tail = "");
  void BeginRestart(const Fault& fault, Duration back_off);
  Duration RestartGrace() const;
  void OnExitAtRestart(WorkerEntry& worker);
  void WatchRestart();
  void GiveUpRest();
  void StartAgainIfReady();
  void StartAgain();
  void SayTrainingAgain();

  // decide_record.cc: what is put on record, and when.
  void Write(JobRecord record);
  JobRecord RecordOf(const char* kind, const WorkerEntry* worker = nullptr) const;
  JobRecord RecordOfTrouble(const WorkerEntry& worker) const;
  void WriteRecovered(Step step);
  void OnCheckpoint(WorkerEntry& worker, const CheckpointCommitted& committed);
  void OnNote(const WorkerEntry& worker, const Note& note);
  bool WasNoted(Incarnation from, const Note& note);

  // decide_end.cc: from the decision to end to the last word.
  void BeginEnding(int code, std::string reason, std::string tail = "");
  void EndAsTold(std::string reason, const WorkerEntry* worker = nullptr);
  void EndForStates(std::string reason);
  void TellToStop(std::vector<WorkerEntry*> workers);
  // Those whose process has not ended; in a restart: of them those that it is about.
  std::vector<WorkerEntry*> Alive();
  bool Stays(const WorkerEntry& worker) const;  // though the others restart
  int Remaining() const;                        // how many of those have not ended
  void OnExitAtEnd(WorkerEntry& worker, const Exited& exited);
  void OnFailedAfterTraining(WorkerEntry& worker, const Exited& exited);
  void KillRest();
  void FreeTheWaiting();
  void StopRequested(const std::string& reason);
  void WatchEnding();
  void EndIfAllGone();
  void End();

  // Small things all use.
  WorkerEntry* Find(Incarnation incarnation);
  void SetState(WorkerEntry& worker, WorkerState state);
  int Count(WorkerState state) const { return state_.count[static_cast<size_t>(state)]; }
  bool AllAre(WorkerState state) const {
    return Count(state) == static_cast<int>(state_.workers.size());
  }
  void EnterPhase(JobPhase phase);
  bool IsEnding() const { return state_.ending.has_value(); }
  bool IsRestarting() const { return state_.restarting.has_value(); }
  bool IsStopping() const { return IsEnding() || IsRestarting(); }  // exits are no failures then
  std::string NameFor(
      const WorkerEntry& worker) const;  // "worker:2", with its host if there are several
  std::vector<std::string> ReachableAgents() const;
  void Tell(std::vector<Incarnation> to, WorkerOrder order);
  void TellAgent(const std::string& agent, AgentOrder order);
  void TellAllAgents(AgentOrder order);
  void Say(std::string text, bool warning = false);  // to the log and to all agents
  void Log(std::string text, bool warning = false);
  std::string Line() const;

  const TimePoint now_;
  JobState& state_;
  Decision decision_;
};

// "a" of "a/17/4026531833": hosts say which boot and network namespace they are, too.
std::string HostForPeople(const std::string& host);
std::string MoreSlots(int missing);                           // "1 more slot", "2 more slots"
std::string SecondsText(Duration d);                          // "2.0 s"
std::vector<std::string> LastLines(const std::string& tail);  // at most 20
// "a, b and 3 more"
std::string NamesOf(const std::vector<std::string>& all, size_t shown = 5);
std::string HostPort(const std::string& address, int port);  // with brackets where IPv6 needs them

bool IsTrainer(const Task& task);  // chief or worker
bool IsEvaluator(const Task& task);
std::string AgeText(Duration d);                            // "63 s", "31 min", "2.5 h"
std::string AndNames(const std::vector<std::string>& all);  // "a, b and c"
// The innermost frames of the thread that matters, at most `lines` lines.
std::string InnermostFrames(const std::string& stacks, size_t lines);

// Workers by the state they are in, at least two groups: names those that differ from the most.
std::string OddOnes(const std::map<std::string, std::vector<std::string>>& by_state);

}  // namespace everstep
