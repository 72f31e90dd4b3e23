// job: terms, by which one run at a time has a job directory. `terms/N` belongs to the run of term
// N; the highest N there is decides.
//
// No lock is trusted to end by itself, and no clocks of two machines are compared: the holder
// renews a counter in its file every second, and whoever comes later looks for itself how long that
// stands still. A holder that was only slow finds the higher term and must end; until then the
// higher number in every name and message keeps the two apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/file.h"
#include "everstep/env/process_identity.h"

namespace everstep {

// What a term's file says.
struct TermHolder {
  int64_t term = 0;
  ProcessIdentity process;
  Duration grace = Duration::zero();  // after being told to leave it may need so long
  int64_t counter = 0;
  bool ended = false;

  std::string Describe() const;  // "the run of term 3 (pid 123 on host a)"
};
std::string ToTermJson(const TermHolder& holder);
// kDataLoss, naming `path`: not such a file.
absl::StatusOr<TermHolder> FromTermJson(std::string_view text, const std::string& path);

// The highest term, nothing when there never was one. A file that cannot be understood has its
// number only.
absl::StatusOr<std::optional<TermHolder>> NewestTerm(FileSystem& fs, const std::string& job);

// Whether it has certainly ended: it says so, or its process was of this host and is gone.
bool IsOver(const TermHolder& holder);

// A term that this process holds. One thread at a time.
class Term {
 public:
  int64_t number() const { return holder_.term; }

  // Once a second. kFailedPrecondition: its file is gone, and so is the right to the directory.
  absl::Status Renew();
  absl::Status End();  // gives it up: the next run need not wait
  // Whether another run has taken a higher one, or Renew has found this one gone.
  absl::StatusOr<bool> IsSuperseded() const;

 private:
  friend class TermTaker;
  Term(FileSystem& fs, std::string job, TermHolder holder)
      : fs_(&fs), job_(std::move(job)), holder_(std::move(holder)) {}

  FileSystem* fs_;
  std::string job_;
  TermHolder holder_;
  bool taken_away_ = false;
};

struct TakeTermOptions {
  Duration grace = std::chrono::seconds(25);  // of this run
  // A holder whose counter stands still for so long is over.
  Duration still_for = std::chrono::seconds(6);
  Duration poll = std::chrono::milliseconds(100);
  // Called once, when another run holds the directory: the line for people, and how long it may
  // take.
  std::function<void(const std::string& line, Duration at_most)> on_wait;
  std::function<bool()> give_up;  // asked while waiting; true: kCancelled
  const Clock* clock = nullptr;   // null: BootClock(). Waiting is real in any case
};

// The next term of the job directory `job`, which is there. Waits for a run that holds it: until
// that is over, or its grace has passed, then kAlreadyExists with exit code 75. An error of the
// file system has exit code 78 when nobody may write there.
absl::StatusOr<Term> TakeTerm(FileSystem& fs, const std::string& job,
                              const TakeTermOptions& options);

}  // namespace everstep
