// env: the file system in memory.
#include "everstep/env/memory_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

// "/a//b/" to {"a", "b"}.
std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

absl::Status NoSuch(const char* what, const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat("cannot ", what, " ", path, ": No such file or directory"));
}

}  // namespace

// What a name stands for; the second of each pair is what survives a crash.
struct MemoryFileSystem::Node {
  bool directory = false;
  std::map<std::string, NodePtr> children, durable_children;
  std::string bytes, durable_bytes;
};

class MemoryFileSystem::OpenFile : public WritableFile {
 public:
  OpenFile(MemoryFileSystem* fs, std::string path, NodePtr node)
      : fs_(fs), path_(std::move(path)), node_(std::move(node)) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    std::lock_guard<std::mutex> lock(fs_->mu_);
    if (node_ == nullptr) return absl::InternalError(absl::StrCat(path_, " is closed already"));
    EV_RETURN_IF_ERROR(fs_->Change(path_));
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    std::lock_guard<std::mutex> lock(fs_->mu_);
    if (node_ == nullptr) return absl::InternalError(absl::StrCat(path_, " is closed already"));
    EV_RETURN_IF_ERROR(fs_->Change(path_));
    node_->durable_bytes = node_->bytes;
    return absl::OkStatus();
  }
  absl::Status Close() override {
    if (node_ == nullptr) return absl::InternalError(absl::StrCat(path_, " is closed already"));
    node_ = nullptr;
    return absl::OkStatus();
  }

 private:
  MemoryFileSystem* const fs_;
  const std::string path_;
  NodePtr node_;
};

class MemoryFileSystem::Snapshot : public RandomAccessFile {
 public:
  Snapshot(MemoryFileSystem* fs, std::string path, NodePtr node)
      : fs_(fs), path_(std::move(path)), node_(std::move(node)), size_(node_->bytes.size()) {}

  int64_t size() const override { return size_; }
  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const override {
    std::lock_guard<std::mutex> lock(fs_->mu_);
    const auto have = static_cast<int64_t>(node_->bytes.size());
    const auto want = static_cast<int64_t>(out.size());
    if (offset < 0) return absl::InternalError(absl::StrCat(path_, ": negative offset ", offset));
    if (want > have - offset) {
      return absl::DataLossError(absl::StrCat(path_, " ends at byte ", have, ", ",
                                              want - (have - offset), " bytes short"));
    }
    if (want > 0) std::memcpy(out.data(), node_->bytes.data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  MemoryFileSystem* const fs_;
  const std::string path_;
  const NodePtr node_;
  const int64_t size_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->directory = true; }
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::Revert(Node* node) {
  node->bytes = node->durable_bytes;
  node->children = node->durable_children;
  for (auto& [name, child] : node->children) Revert(child.get());
}

void MemoryFileSystem::Crash() {
  std::lock_guard<std::mutex> lock(mu_);
  Revert(root_.get());
  left_ = -1;
}

void MemoryFileSystem::KeepSomeBytes(Node* node, absl::FunctionRef<uint64_t()> random) {
  if (node->bytes == node->durable_bytes) return;
  std::string& bytes = node->bytes;
  // What was synced and not truncated since is there in any case.
  const std::string& durable = node->durable_bytes;
  const size_t safe = bytes.compare(0, durable.size(), durable) == 0 ? durable.size() : 0;
  const size_t rest = bytes.size() - safe;
  switch (random() % 4) {
    case 0:
      bytes = durable;
      break;
    case 1:
      bytes.resize(safe + random() % (rest + 1));
      break;
    case 2: {
      // The size came to the disk before the bytes did.
      if (rest == 0) break;
      const size_t hole = safe + random() % rest;
      const size_t size = 1 + random() % (bytes.size() - hole);
      std::fill_n(bytes.begin() + static_cast<int64_t>(hole), size, '\0');
      break;
    }
    default:
      break;
  }
  node->durable_bytes = bytes;
}

void MemoryFileSystem::KeepSomeNames(Node* node, absl::FunctionRef<uint64_t()> random) {
  std::map<std::string, NodePtr> after = node->durable_children;
  auto moved = [node](const NodePtr& child) {
    return std::any_of(node->children.begin(), node->children.end(),
                       [&](const auto& entry) { return entry.second == child; });
  };
  for (const auto& [name, child] : node->children) {
    const auto before = node->durable_children.find(name);
    if (before != node->durable_children.end() && before->second == child) continue;
    if (random() % 2 == 0) continue;
    // One change with the going of the old name, if it was renamed.
    for (const auto& [old_name, old_child] : node->durable_children) {
      const auto now = node->children.find(old_name);
      if (old_child != child || (now != node->children.end() && now->second == child)) continue;
      const auto old = after.find(old_name);
      if (old != after.end() && old->second == child) after.erase(old);
    }
    after[name] = child;
  }
  for (const auto& [name, child] : node->durable_children) {
    if (node->children.count(name) == 0 && !moved(child) && random() % 2 == 0) after.erase(name);
  }
  node->children = node->durable_children = std::move(after);
}

void MemoryFileSystem::KeepSome(Node* node, absl::FunctionRef<uint64_t()> random) {
  if (!node->directory) return KeepSomeBytes(node, random);
  KeepSomeNames(node, random);
  for (auto& [name, child] : node->children) KeepSome(child.get(), random);
}

void MemoryFileSystem::CrashKeepingSome(uint64_t seed) {
  std::lock_guard<std::mutex> lock(mu_);
  uint64_t drawn = 0;
  KeepSome(root_.get(), [&] { return HashKey({seed, drawn++}); });
  left_ = -1;
}

void MemoryFileSystem::FailAfter(int operations) {
  std::lock_guard<std::mutex> lock(mu_);
  left_ = operations;
}

int MemoryFileSystem::changes() const {
  std::lock_guard<std::mutex> lock(mu_);
  return changes_;
}

absl::Status MemoryFileSystem::Change(const std::string& path) {
  if (left_ == 0) return absl::UnavailableError(absl::StrCat(path, ": the disk has failed"));
  if (left_ > 0) --left_;
  ++changes_;
  return absl::OkStatus();
}

MemoryFileSystem::NodePtr MemoryFileSystem::Find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& part : PartsOf(path)) {
    const auto child = node->children.find(part);
    if (child == node->children.end()) return nullptr;
    node = child->second;
  }
  return node;
}

absl::StatusOr<MemoryFileSystem::NodePtr> MemoryFileSystem::Parent(const std::string& path,
                                                                   std::string* name) const {
  std::vector<std::string> parts = PartsOf(path);
  if (parts.empty()) return NoSuch("open", path);
  *name = parts.back();
  NodePtr node = root_;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto child = node->children.find(parts[i]);
    if (child == node->children.end() || !child->second->directory) return NoSuch("open", path);
    node = child->second;
  }
  return node;
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::OpenForWriting(
    const std::string& path, Create create, int /*mode*/) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string name;
  EV_ASSIGN_OR_RETURN(const NodePtr parent, Parent(path, &name));
  EV_RETURN_IF_ERROR(Change(path));
  NodePtr& node = parent->children[name];
  if (node != nullptr && (create == Create::kExclusive || node->directory)) {
    const std::string message = absl::StrCat("cannot open ", path, ": it exists");
    if (create == Create::kExclusive) return absl::AlreadyExistsError(message);
    return absl::UnavailableError(message);
  }
  if (node == nullptr) node = std::make_shared<Node>();
  if (create != Create::kAppend) node->bytes.clear();
  return std::make_unique<OpenFile>(this, path, node);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::OpenForReading(
    const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  NodePtr node = Find(path);
  if (node == nullptr) return NoSuch("open", path);
  if (node->directory) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": it is a directory; name a file in it"));
  }
  return std::make_unique<Snapshot>(this, path, std::move(node));
}

absl::Status MemoryFileSystem::CreateDirectories(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  NodePtr node = root_;
  for (const std::string& part : PartsOf(path)) {
    auto child = node->children.find(part);
    if (child == node->children.end()) {
      EV_RETURN_IF_ERROR(Change(path));
      auto made = std::make_shared<Node>();
      made->directory = true;
      child = node->children.emplace(part, std::move(made)).first;
    }
    if (!child->second->directory) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot create directory ", path, ": ", part, " is a file"));
    }
    node = child->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& directory) {
  std::lock_guard<std::mutex> lock(mu_);
  const NodePtr node = Find(directory);
  if (node == nullptr || !node->directory) return NoSuch("list", directory);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->children) names.push_back(name);
  return names;
}

absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string from_name, to_name;
  EV_ASSIGN_OR_RETURN(const NodePtr from_parent, Parent(from, &from_name));
  EV_ASSIGN_OR_RETURN(const NodePtr to_parent, Parent(to, &to_name));
  const auto source = from_parent->children.find(from_name);
  if (source == from_parent->children.end()) {
    return NoSuch("rename", absl::StrCat(from, " to ", to));
  }
  const auto target = to_parent->children.find(to_name);
  if (target != to_parent->children.end() &&
      (target->second->directory != source->second->directory ||
       !target->second->children.empty())) {
    return absl::AlreadyExistsError(absl::StrCat("cannot rename ", from, " to ", to));
  }
  EV_RETURN_IF_ERROR(Change(from));
  NodePtr node = source->second;
  from_parent->children.erase(source);
  to_parent->children[to_name] = std::move(node);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Link(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string name;
  EV_ASSIGN_OR_RETURN(const NodePtr parent, Parent(to, &name));
  NodePtr node = Find(from);
  if (node == nullptr) return NoSuch("link", from);
  if (parent->children.count(name) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("cannot link ", from, " to ", to));
  }
  EV_RETURN_IF_ERROR(Change(to));
  parent->children[name] = std::move(node);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Remove(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string name;
  EV_ASSIGN_OR_RETURN(const NodePtr parent, Parent(path, &name));
  const auto node = parent->children.find(name);
  if (node == parent->children.end()) return NoSuch("remove", path);
  if (!node->second->children.empty()) {
    return absl::AlreadyExistsError(absl::StrCat("cannot remove ", path, ": not empty"));
  }
  EV_RETURN_IF_ERROR(Change(path));
  parent->children.erase(node);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::RemoveNode(const std::string& path, Node* parent,
                                          const std::string& name) {
  // Piece by piece, as on a disk: it may fail half-way.
  const NodePtr node = parent->children[name];
  while (!node->children.empty()) {
    EV_RETURN_IF_ERROR(RemoveNode(path, node.get(), node->children.begin()->first));
  }
  EV_RETURN_IF_ERROR(Change(path));
  parent->children.erase(name);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::RemoveTree(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  std::string name;
  const absl::StatusOr<NodePtr> parent = Parent(path, &name);
  if (!parent.ok() || (*parent)->children.count(name) == 0) return absl::OkStatus();
  return RemoveNode(path, parent->get(), name);
}

absl::Status MemoryFileSystem::SyncDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  const NodePtr node = Find(path);
  if (node == nullptr || !node->directory) return NoSuch("sync", path);
  EV_RETURN_IF_ERROR(Change(path));
  node->durable_children = node->children;
  return absl::OkStatus();
}

bool MemoryFileSystem::Exists(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  return Find(path) != nullptr;
}

bool MemoryFileSystem::IsDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(mu_);
  const NodePtr node = Find(path);
  return node != nullptr && node->directory;
}

}  // namespace everstep
