// job: the Journal of a job directory: one thread that does all writing of a coordinator there, so
// that a disk which hangs or is full stops nobody who decides.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/file.h"
#include "everstep/job/journal.h"
#include "everstep/job/outcome.h"
#include "everstep/job/term.h"

namespace everstep {

struct DirectoryJournalOptions {
  // What the disk does not let it do, once each time it begins. In the journal's thread.
  std::function<void(const std::string& line)> warn;
  // Called at Close, while the directory is this run's and all but its end is written: to remove
  // what processes that were killed have left half written. In the journal's thread; may be null.
  std::function<void()> tidy;
  Duration interval = std::chrono::seconds(1);  // of renewing the term, of statuses, of retries
  Duration lease = std::chrono::seconds(3);
  int64_t most_records = 10000;  // kept while they cannot be written; then new ones are lost
  const Clock* clock = nullptr;  // null: BootClock()
};

// Appends records to incidents.jsonl and syncs them; publishes the newest status as status.json, at
// most once an interval; renews the term. A record's time is that of Record, its term this one's
// unless it says another. A record that is lost counts as durable when all before it are.
//
// Once superseded it writes nothing more: the directory is another run's.
class DirectoryJournal : public Journal {
 public:
  // Reads what former runs have left; when the last of them ended without a word, a record
  // run_vanished, an incident, is the first one written. `fs` must live as long as the process: a
  // write that never returns is left behind in its thread.
  static absl::StatusOr<std::unique_ptr<DirectoryJournal>> Open(FileSystem& fs,
                                                                const std::string& job, Term term,
                                                                DirectoryJournalOptions options);
  ~DirectoryJournal() override;  // as Close within 2 s, but the term is not given up

  int64_t term() const;
  int64_t first_incident() const;  // the lowest number that no incident has yet

  void Record(JobRecord record) override;
  void Publish(JobStatus status) override;
  int64_t durable() const override;
  bool lease_held() const override;
  bool superseded() const override;

  // Writes what is left, then `outcome` when there is one, its step that of the newest status, and
  // gives up the term. False when that was not done by `deadline` (of RealClock()). Nothing may be
  // recorded after it. Once.
  bool Close(std::optional<JobOutcome> outcome, Deadline deadline);

 private:
  class Writer;
  explicit DirectoryJournal(std::shared_ptr<Writer> writer);
  std::shared_ptr<Writer> writer_;  // shared with its thread
  bool closed_ = false;
};

}  // namespace everstep
