// supervise: the watch's thread that looks for checkpoints and event files, and their verification.
#include <algorithm>
#include <set>
#include <utility>

#include "everstep/io/publish.h"
#include "everstep/supervise/checkpoint_check.h"
#include "everstep/supervise/search_roots.h"
#include "everstep/supervise/watch_state.h"

namespace everstep {
namespace {

constexpr int kSearchEvery = 2;   // intervals
constexpr int kTimesSearch = 20;  // a search that takes long comes seldom
constexpr size_t kMaxRoots = 64;  // remembered, of all lives
constexpr size_t kMaxMessages = 1000;
constexpr Duration kSettle = std::chrono::milliseconds(100);

// Where a process saves: places to search, and what of it counts.
struct Place {
  std::string directory;
  std::string begins_with;  // of a path; empty: all of the directory
  bool file = false;        // `begins_with` is a file of a model
  bool guess = false;       // the process only happens to work there, as others may

  bool Holds(const std::string& path) const {
    return begins_with.empty() ? LiesIn(path, directory)
                               : path.compare(0, begins_with.size(), begins_with) == 0;
  }
  const std::string& root() const { return file ? begins_with : directory; }
  friend bool operator==(const Place& a, const Place& b) {
    return a.directory == b.directory && a.begins_with == b.begins_with;
  }
};

// `sure`: guesses do not count.
bool Holds(const std::vector<Place>& places, const std::string& path, bool sure) {
  return std::any_of(places.begin(), places.end(), [&](const Place& place) {
    return place.Holds(path) && !(sure && place.guess);
  });
}

// What is needed of a process, copied under the mutex.
struct Writer {
  Incarnation incarnation = 0;
  double started = 0;
  std::vector<pid_t> pids;
  std::string checkpoint_path;
};

class Librarian {
 public:
  explicit Librarian(Watch::State* state)
      : state_(*state), fs_(state->options.fs != nullptr ? *state->options.fs : RealFileSystem()) {}

  // Whatever it is time to do.
  void Work();
  // Searches at once, and says what is there to be verified.
  std::vector<FoundCheckpoint> SearchNow();
  FileSystem& fs() const { return fs_; }

 private:
  std::vector<Writer> Writers() const;
  std::vector<Place> PlacesOf(const Writer& writer);
  void Search(const std::vector<Writer>& writers);
  void Report(const FinderNews& news);

  Watch::State& state_;
  FileSystem& fs_;
  std::optional<CheckpointFinder> finder_;  // from the first process on
  // Where to look: of each process, and what is kept of those that have ended.
  std::map<Incarnation, std::pair<Writer, std::vector<Place>>> places_;
  std::vector<Place> all_places_;
  // A checkpoint was found where nobody had to guess: then what else lies about is another's.
  bool sure_ = false;
  Incarnation latest_ = 0;
  TimePoint next_search_{};
};

std::vector<Writer> Librarian::Writers() const {
  std::vector<Writer> writers;
  std::lock_guard<std::mutex> lock(state_.mutex);
  for (const auto& [incarnation, process] : state_.processes) {
    if (process->pid == 0) continue;
    writers.push_back({incarnation, process->started, process->pids, process->checkpoint_path});
  }
  return writers;
}

std::vector<Place> Librarian::PlacesOf(const Writer& writer) {
  std::vector<Place> places;
  if (!writer.checkpoint_path.empty()) {
    const std::string path = PlainPath(writer.checkpoint_path);
    if (fs_.IsDirectory(path)) return {{path, ""}};
    // It may come to be, or it is a prefix as TensorFlow has them.
    return {{DirectoryOf(path), path}};
  }
  for (pid_t pid : writer.pids) {
    const ProgramFacts facts = FactsOf(pid);
    for (std::string& root : SearchRoots(facts, fs_)) {
      Place place;
      if (fs_.IsDirectory(root)) {
        place.guess = root == facts.working_directory;
        place.directory = std::move(root);
      } else {
        place = {DirectoryOf(root), root, true, false};
      }
      if (std::find(places.begin(), places.end(), place) == places.end()) {
        places.push_back(std::move(place));
      }
    }
  }
  return places;
}

void Librarian::Work() {
  const std::vector<Writer> writers = Writers();
  if (writers.empty()) return;
  latest_ = writers.back().incarnation;
  if (!finder_.has_value()) {
    CheckpointFinder::Options options;
    options.fs = &fs_;
    const std::string& job = state_.options.job_directory;
    if (!job.empty()) {
      for (const char* ours : {"checkpoints", "logs"}) {
        options.never.push_back(JoinPath(PlainPath(AbsolutePath(job)), ours));
      }
    }
    options.since = writers.front().started;
    for (const Writer& writer : writers) options.since = std::min(options.since, writer.started);
    finder_.emplace(std::move(options));
  }
  if (finder_->pending()) Report(finder_->Recheck());
  const TimePoint start = RealClock().Now();
  const bool newcomer = std::any_of(writers.begin(), writers.end(), [&](const Writer& writer) {
    return places_.count(writer.incarnation) == 0;
  });
  if (start < next_search_ && !newcomer) return;
  Search(writers);
  const Duration took = RealClock().Now() - start;
  next_search_ =
      start + std::max<Duration>(kSearchEvery * state_.options.interval, kTimesSearch * took);
}

void Librarian::Search(const std::vector<Writer>& writers) {
  // Files are held open for moments only: where one was written is remembered.
  std::map<Incarnation, std::pair<Writer, std::vector<Place>>> places;
  for (const Writer& writer : writers) {
    std::vector<Place> found = PlacesOf(writer);
    const auto before = places_.find(writer.incarnation);
    if (before != places_.end() && writer.checkpoint_path.empty()) {
      for (Place& place : before->second.second) {
        if (found.size() < kMaxRoots && std::find(found.begin(), found.end(), place) == found.end())
          found.push_back(std::move(place));
      }
    }
    for (const Place& place : found) {
      const auto at = std::find(all_places_.begin(), all_places_.end(), place);
      if (at != all_places_.end()) continue;
      if (all_places_.size() >= kMaxRoots) all_places_.erase(all_places_.begin());
      all_places_.push_back(place);
    }
    places[writer.incarnation] = {writer, std::move(found)};
  }
  places_ = std::move(places);
  std::vector<std::string> roots;
  for (const Place& place : all_places_) roots.push_back(place.root());
  Report(finder_->Search(roots));
}

void Librarian::Report(const FinderNews& news) {
  bool said = false;
  {
    std::lock_guard<std::mutex> lock(state_.mutex);
    for (const FoundCheckpoint& file : news.grown) {
      for (const auto& [incarnation, at] : places_) {
        const auto process = state_.processes.find(incarnation);
        // What the life before has written is not this one's.
        if (process == state_.processes.end() || file.modified < at.first.started) continue;
        if (Holds(at.second, file.path, sure_))
          process->second->files_grew = process->second->wrote = true;
      }
    }
    for (const FoundCheckpoint& found : news.checkpoints) {
      if (!Holds(all_places_, found.path, sure_)) continue;
      sure_ = sure_ || Holds(all_places_, found.path, true);
      if (state_.messages.size() >= kMaxMessages) continue;
      CheckpointSeen seen;
      seen.incarnation = latest_;
      for (const auto& [incarnation, at] : places_) {
        if (Holds(at.second, found.path, sure_)) {
          seen.incarnation = incarnation;
          break;
        }
      }
      seen.path = found.path;
      seen.age = std::chrono::milliseconds(
          static_cast<int64_t>(1000 * std::max(0.0, WallSeconds() - found.modified)));
      state_.messages.emplace_back(std::move(seen));
      said = true;
    }
  }
  if (said) state_.Say();
}

std::vector<FoundCheckpoint> Librarian::SearchNow() {
  if (!finder_.has_value()) return {};
  std::vector<std::string> roots;
  for (const Place& place : all_places_) roots.push_back(place.root());
  Report(finder_->Search(roots));
  if (finder_->pending()) {
    SleepFor(kSettle);
    Report(finder_->Recheck());
  }
  std::vector<FoundCheckpoint> known;
  for (FoundCheckpoint& found : finder_->Known()) {
    if (Holds(all_places_, found.path, sure_)) known.push_back(std::move(found));
  }
  return known;
}

}  // namespace

void Watch::Files::Run(std::shared_ptr<State> state) {
  Librarian librarian(state.get());
  std::set<std::string> told;
  while (true) {
    std::optional<Deadline> verify;
    {
      std::unique_lock<std::mutex> lock(state->mutex);
      state->changed.wait_for(lock, state->options.interval,
                              [&] { return state->stop || state->verify_wanted; });
      if (state->stop) return;
      if (std::exchange(state->verify_wanted, false)) verify = state->verify_until;
    }
    if (!verify.has_value()) {
      librarian.Work();
      continue;
    }
    const std::vector<FoundCheckpoint> known = librarian.SearchNow();
    // The deadline keeps it short; a file system that hangs keeps this thread, as it would in Work.
    std::vector<Note> notes = CheckNewest(librarian.fs(), known, RealClock(), *verify);
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      for (Note& note : notes) {
        if (told.insert(note.text).second) state->notes.push_back(std::move(note));
      }
      if (!state->verify_wanted) state->verify_until.reset();
    }
    state->Say();
  }
}

}  // namespace everstep
