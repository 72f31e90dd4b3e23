// supervise: the search for checkpoints and event files.
#include "everstep/supervise/checkpoint_finder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "everstep/io/publish.h"
#include "everstep/supervise/search_roots.h"

namespace everstep {
namespace {

constexpr size_t kMaxRemembered = 4096;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}
bool BeginsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool IsPassedOver(std::string_view name) {
  for (const char* other :
       {"__pycache__", "site-packages", "dist-packages", "node_modules", "venv", "env", "lib64"}) {
    if (name == other) return true;
  }
  // Keras's workers other than the chief save for nobody; and parts of what is not whole yet.
  return name.front() == '.' || BeginsWith(name, "workertemp_") || EndsWith(name, "_temp") ||
         EndsWith(name, "-venv") || EndsWith(name, ".tmp");
}

// "checkpoint-500", as the trainers of language models have it.
bool IsNumberedDirectory(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!BeginsWith(name, "checkpoint-")) return false;
  name.remove_prefix(11);
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool Same(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return a.modified == b.modified && a.bytes == b.bytes;
}

}  // namespace

CheckpointFinder::CheckpointFinder(Options options) : options_(std::move(options)) {}

FinderNews CheckpointFinder::Search(const std::vector<std::string>& roots) {
  FinderNews news;
  Walk(roots, &news);
  Forget();
  return news;
}

FinderNews CheckpointFinder::Recheck() {
  FinderNews news;
  const auto pending = pending_;
  for (const auto& [path, before] : pending) {
    std::optional<FoundCheckpoint> now = Measure(path, before.kind);
    now.has_value() ? OnCandidate(std::move(*now), &news) : void(pending_.erase(path));
  }
  return news;
}

std::vector<FoundCheckpoint> CheckpointFinder::Known() const {
  std::vector<FoundCheckpoint> known;
  for (const auto& [path, found] : known_) known.push_back(found);
  std::stable_sort(known.begin(), known.end(),
                   [](const auto& a, const auto& b) { return a.modified > b.modified; });
  return known;
}

void CheckpointFinder::Walk(const std::vector<std::string>& roots, FinderNews* news) {
  left_ = options_.entries;
  visited_.clear();
  links_.clear();
  roots_ = std::set<std::string>(roots.begin(), roots.end());
  std::vector<std::deque<Place>> queues;
  for (size_t i = 0; i < roots.size(); ++i) {
    queues.emplace_back().push_back({roots[i], 0});
    Go(&queues.back(), left_ / static_cast<int>(roots.size() - i), news);
  }
  for (std::deque<Place>& queue : queues) Go(&queue, left_, news);
  const int share = std::max(1, options_.entries / options_.link_share);
  while (!links_.empty() && left_ > 0) {
    std::deque<Place> queue = {std::move(links_.front())};
    links_.pop_front();
    Go(&queue, share, news);
  }
}

void CheckpointFinder::Go(std::deque<Place>* queue, int budget, FinderNews* news) {
  const int kept = left_ - std::clamp(budget, 0, left_);
  left_ -= kept;
  while (!queue->empty() && left_ > 0) {
    const Place place = std::move(queue->front());
    queue->pop_front();
    LookInto(place, queue, news);
  }
  left_ = std::max(left_, 0) + kept;
}

void CheckpointFinder::LookInto(const Place& place, std::deque<Place>* queue, FinderNews* news) {
  for (const std::string& never : options_.never) {
    if (LiesIn(place.directory, never)) return;
  }
  if (!visited_.insert(place.directory).second) return;
  --left_;
  const auto entries = options_.fs->ListEntries(place.directory);
  if (!entries.ok() && IsModelFile(place.directory)) {  // a root may be a file
    if (auto found = Measure(place.directory, CheckpointKind::kOther)) {
      OnCandidate(std::move(*found), news);
    }
  }
  if (!entries.ok()) return;
  std::vector<std::string> names;
  for (const FileSystem::Entry& entry : *entries) names.push_back(entry.name);
  if (IsCheckpointItself(place.directory, names, news)) return;
  const bool crowded = names.size() > static_cast<size_t>(options_.crowded);
  for (size_t i = 0; i < names.size() && left_ > 0; ++i) {
    const std::string& name = names[i];
    using Kind = FileSystem::Entry::Kind;
    const Kind kind = (*entries)[i].kind;
    const std::string path = JoinPath(place.directory, name);
    if (name.find("tfevents") != std::string::npos) {
      OnEvents(path, news);
    } else if (EndsWith(name, ".index")) {
      const std::string stem = name.substr(0, name.size() - 6);
      const auto data = std::lower_bound(names.begin(), names.end(), stem + ".data-");
      if (data == names.end() || !BeginsWith(*data, stem + ".data-")) continue;
      const std::string prefix = JoinPath(place.directory, stem);
      if (auto found = Measure(prefix, CheckpointKind::kTensorFlow, &names)) {
        OnCandidate(std::move(*found), news);
      }
    } else if (IsModelFile(name) && !options_.fs->IsDirectory(path)) {
      if (auto found = Measure(path, CheckpointKind::kOther)) OnCandidate(std::move(*found), news);
    } else if (!crowded && place.depth < options_.depth && !IsPassedOver(name) &&
               kind != Kind::kOther && roots_.count(path) == 0) {
      --left_;
      if (kind != Kind::kDirectory && !options_.fs->IsDirectory(path)) continue;
      (kind == Kind::kLink ? &links_ : queue)->push_back({path, place.depth + 1});
    }
  }
}

bool CheckpointFinder::IsCheckpointItself(const std::string& directory,
                                          const std::vector<std::string>& names, FinderNews* news) {
  CheckpointKind kind = CheckpointKind::kOther;
  if (std::binary_search(names.begin(), names.end(), "saved_model.pb")) {
    kind = CheckpointKind::kSavedModel;
  } else if (!IsNumberedDirectory(directory) ||
             std::none_of(names.begin(), names.end(), [](const std::string& name) {
               return IsModelFile(name) || EndsWith(name, ".bin") || name == "trainer_state.json";
             })) {
    return false;
  }
  if (auto found = Measure(directory, kind)) OnCandidate(std::move(*found), news);
  return true;
}

bool CheckpointFinder::AddFile(const std::string& path, FoundCheckpoint* found) const {
  const absl::StatusOr<double> modified = options_.fs->ModifiedAt(path);
  if (!modified.ok()) return false;
  found->modified = std::max(found->modified, *modified);
  // What is older than the job is not opened: there may be many of them, and far away.
  if (*modified < options_.since) return true;
  const auto file = options_.fs->OpenForReading(path);
  if (!file.ok()) return false;
  found->bytes += (*file)->size();
  return true;
}

std::optional<FoundCheckpoint> CheckpointFinder::Measure(
    const std::string& path, CheckpointKind kind, const std::vector<std::string>* names) const {
  FoundCheckpoint found;
  found.path = path;
  found.kind = kind;
  if (kind == CheckpointKind::kTensorFlow) {
    if (!AddFile(path + ".index", &found)) return std::nullopt;
    if (found.modified < options_.since) return std::nullopt;
    std::vector<std::string> listed;
    if (names == nullptr) {
      listed = options_.fs->List(DirectoryOf(path)).value_or(std::vector<std::string>());
      names = &listed;
    }
    const std::string data = path.substr(path.rfind('/') + 1) + ".data-";
    for (auto at = std::lower_bound(names->begin(), names->end(), data);
         at != names->end() && BeginsWith(*at, data); ++at) {
      if (!AddFile(JoinPath(DirectoryOf(path), *at), &found)) return std::nullopt;
    }
    return found;
  }
  if (!options_.fs->IsDirectory(path)) {
    if (!AddFile(path, &found) || found.modified < options_.since) return std::nullopt;
    return found;
  }
  std::vector<std::string> directories = {path};
  if (kind == CheckpointKind::kSavedModel) directories.push_back(JoinPath(path, "variables"));
  for (const std::string& directory : directories) {
    for (const std::string& name :
         options_.fs->List(directory).value_or(std::vector<std::string>())) {
      (void)AddFile(JoinPath(directory, name), &found);
    }
  }
  if (found.modified < options_.since) return std::nullopt;
  return found;
}

void CheckpointFinder::OnEvents(const std::string& path, FinderNews* news) {
  --left_;
  FoundCheckpoint found;
  if (!AddFile(path, &found) || found.modified < options_.since) return;
  const auto known = events_.find(path);
  if (known != events_.end() && Same(known->second, found)) return;
  found.path = path;
  events_[path] = found;
  news->grown.push_back(std::move(found));
}

void CheckpointFinder::OnCandidate(FoundCheckpoint found, FinderNews* news) {
  --left_;
  const std::string path = found.path;
  const auto known = known_.find(path);
  if (known != known_.end() && Same(known->second, found)) return;
  const auto before = pending_.find(path);
  // One that is still written grows; one that is saved again all the time has a new time at each
  // look.
  if (before == pending_.end() || before->second.bytes != found.bytes) {
    pending_[path] = found;
    news->grown.push_back(std::move(found));
    return;
  }
  pending_.erase(before);
  // An empty file is a promise.
  if (found.bytes == 0) return;
  known_[path] = found;
  news->checkpoints.push_back(std::move(found));
}

// Programs that save every minute for weeks, and delete, leave names behind here.
void CheckpointFinder::Forget() {
  for (auto* map : {&pending_, &known_, &events_}) {
    while (map->size() > kMaxRemembered) {
      map->erase(std::min_element(map->begin(), map->end(), [](const auto& a, const auto& b) {
        return a.second.modified < b.second.modified;
      }));
    }
  }
}

}  // namespace everstep
