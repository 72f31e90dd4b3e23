// supervise: finds what programs save, by the names and shapes that TensorFlow, Keras, PyTorch and
// their friends give it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "everstep/env/file.h"

namespace everstep {

enum class CheckpointKind { kTensorFlow, kSavedModel, kOther };

struct FoundCheckpoint {
  // Of kTensorFlow a prefix (beside which PREFIX.index lies), of kSavedModel a directory, else a
  // file or, of "checkpoint-N" with model files, a directory.
  std::string path;
  CheckpointKind kind = CheckpointKind::kOther;
  double modified = 0;  // seconds since 1970, by the file system's clock
  int64_t bytes = 0;
};

// What a search has found that the one before had not.
struct FinderNews {
  std::vector<FoundCheckpoint> checkpoints;  // whole: they did not grow between two looks
  std::vector<FoundCheckpoint> grown;        // checkpoints and event files that are new or changed
};

// One thread. A file system that hangs holds it up.
class CheckpointFinder {
 public:
  struct Options {
    FileSystem* fs = nullptr;
    std::vector<std::string> never;  // directories to stay out of
    double since = 0;                // what was written before (seconds since 1970) does not count
    int depth = 4;
    // Looked at in a search, at most: directories, candidates, and what might be either. Plain
    // files cost nothing where the file system lists them as such.
    int entries = 2000;
    int link_share = 8;  // of the entries, one part in so many may be looked at behind a link
    int crowded = 1000;  // a directory with more names holds data: not gone deeper into
  };
  explicit CheckpointFinder(Options options);

  // Looks through `roots`, directories or files of models, in each nearer things first. Each has a
  // fair share of the entries, what is left of them serves all, and links to directories come last
  // with a share that is small: who knows where they lead. Hidden directories and those of
  // installed software are passed over.
  FinderNews Search(const std::vector<std::string>& roots);
  // Looks again at those that were not seen twice yet.
  FinderNews Recheck();
  bool pending() const { return !pending_.empty(); }

  // All that were found whole and may still be there, the newest first.
  std::vector<FoundCheckpoint> Known() const;

 private:
  struct Place {
    std::string directory;
    int depth = 0;
  };

  void Walk(const std::vector<std::string>& roots, FinderNews* news);
  // Goes on with a queue until it is empty or `budget` is used up.
  void Go(std::deque<Place>* queue, int budget, FinderNews* news);
  void LookInto(const Place& place, std::deque<Place>* queue, FinderNews* news);
  // The whole directory is one checkpoint.
  bool IsCheckpointItself(const std::string& directory, const std::vector<std::string>& names,
                          FinderNews* news);
  void OnEvents(const std::string& path, FinderNews* news);
  void OnCandidate(FoundCheckpoint found, FinderNews* news);
  // `names`: those of its directory, sorted, where they are known.
  std::optional<FoundCheckpoint> Measure(const std::string& path, CheckpointKind kind,
                                         const std::vector<std::string>* names = nullptr) const;
  bool AddFile(const std::string& path, FoundCheckpoint* found) const;
  void Forget();

  const Options options_;
  // Of the present search:
  int left_ = 0;  // entries
  std::set<std::string> visited_;
  std::set<std::string> roots_;
  std::deque<Place> links_;
  std::map<std::string, FoundCheckpoint> pending_;
  std::map<std::string, FoundCheckpoint> known_;
  std::map<std::string, FoundCheckpoint> events_;
};

}  // namespace everstep
