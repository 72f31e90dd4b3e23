// checkpoint: the directory store, writing. What it writes is in format.h, reading in restore.cc.
#include "everstep/checkpoint/directory_store.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/format.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/publish.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

constexpr char kTemporary[] = ".tmp-";
constexpr char kRetired[] = ".old-";
constexpr char kNote[] = "checkpoint";

// Saves one shard under `prefix`. The digest of the whole is needed for one of them only.
absl::Status WriteShard(FileSystem& fs, const std::string& prefix, const CheckpointId& id,
                        absl::Span<const TensorSpan> state, Shard shard) {
  BundleWriter bundle(fs, prefix);
  EV_RETURN_IF_ERROR(AddCheckpoint(id, state, std::string(kDigestDigits, '0'), &bundle));
  if (bundle.ShardOf(kMetaKey, shard.count) != shard.index) {
    return bundle.WriteShard(shard.index, shard.count);
  }
  BundleWriter with_digest(fs, prefix);
  EV_RETURN_IF_ERROR(AddCheckpoint(id, state, FullDigest(state), &with_digest));
  return with_digest.WriteShard(shard.index, shard.count);
}

bool Opens(FileSystem& fs, const CheckpointInfo& info,
           absl::FunctionRef<absl::Status(const StoredState&)> check) {
  const auto stored = StoredState::Open(fs, info.prefix());
  return stored.ok() && check(**stored).ok();
}

}  // namespace

DirectoryStore::DirectoryStore(FileSystem& fs, DirectoryStoreOptions options)
    : fs_(fs), options_(std::move(options)) {}

std::string DirectoryStore::PathOf(const CheckpointId& id) const {
  return JoinPath(options_.directory, id.DirectoryName());
}

std::string DirectoryStore::TemporaryPath(const CheckpointId& id) const {
  return JoinPath(options_.directory, kTemporary + id.DirectoryName());
}

std::string DirectoryStore::RetiredPath(const std::string& path) const {
  return JoinPath(options_.directory, kRetired + BaseName(path));
}

absl::Status DirectoryStore::MakeDirectory() {
  if (fs_.IsDirectory(options_.directory)) return absl::OkStatus();
  const std::string parent = DirectoryOf(options_.directory);
  if (!fs_.IsDirectory(parent)) {  // made again it would be where nobody looks
    return absl::NotFoundError(absl::StrCat(parent, " is gone: was it moved or removed?"));
  }
  EV_RETURN_IF_ERROR(fs_.CreateDirectories(options_.directory));
  return fs_.SyncDirectory(DirectoryOf(options_.directory));
}

absl::Status DirectoryStore::SaveShard(const CheckpointId& id, absl::Span<const TensorSpan> state,
                                       Shard shard) {
  if (shard.index < 0 || shard.index >= shard.count) {
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf(id), ": there is no shard ", shard.index, " of ", shard.count));
  }
  EV_RETURN_IF_ERROR(MakeDirectory());
  const std::string path = TemporaryPath(id), prefix = CheckpointPrefix(path);
  EV_RETURN_IF_ERROR(fs_.CreateDirectories(path));
  absl::Status status = WriteShard(fs_, prefix, id, state, shard);
  if (status.ok()) status = fs_.SyncDirectory(path);
  // Gives the space of a full disk back; whether it can does not matter more than the error.
  if (!status.ok()) (void)fs_.Remove(BundleDataPath(prefix, shard.index, shard.count));
  return status;
}

// All there, each of its size, and nothing else: an earlier save of this id may have left files.
absl::Status DirectoryStore::CheckShards(const CheckpointId& id,
                                         const std::vector<int64_t>& sizes) {
  const std::string path = TemporaryPath(id);
  const int count = static_cast<int>(sizes.size());
  std::vector<std::string> wanted;
  for (int i = 0; i < count; ++i) {
    const std::string file = BundleDataPath(CheckpointPrefix(path), i, count);
    const auto opened = fs_.OpenForReading(file);
    if (absl::IsNotFound(opened.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat(file, ": commit of a checkpoint of which this shard was not saved"));
    }
    if (!opened.ok()) return opened.status();
    if ((*opened)->size() != sizes[i]) {
      return absl::DataLossError(absl::StrCat(file, ": the saved shard has ", (*opened)->size(),
                                              " bytes, expected ", sizes[i]));
    }
    wanted.push_back(BaseName(file));
  }
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(path));
  for (const std::string& name : names) {
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) continue;
    EV_RETURN_IF_ERROR(fs_.RemoveTree(JoinPath(path, name)));
  }
  return absl::OkStatus();
}

// Whether that state is committed under that id already. A step is pure: two saves of one id must
// be of one state, so another one there is an error, but a damaged one only makes room.
absl::StatusOr<bool> DirectoryStore::IsThere(const CheckpointId& id, const std::string& digest) {
  const std::string path = PathOf(id);
  if (!fs_.Exists(path)) return false;
  const auto stored = StoredState::Open(fs_, CheckpointPrefix(path));
  if (stored.ok() && (*stored)->Verify().ok()) {
    if ((*stored)->stored_digest() == digest && IdOf(**stored, path) == id) return true;
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": a checkpoint of this name with another state exists; move it away"));
  }
  const std::string retired = RetiredPath(path);
  EV_RETURN_IF_ERROR(fs_.RemoveTree(retired));
  EV_RETURN_IF_ERROR(fs_.Rename(path, retired));
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(options_.directory));
  (void)fs_.RemoveTree(retired);  // its name says that it is a leftover
  return false;
}

absl::Status DirectoryStore::Commit(const CheckpointId& id, absl::Span<const TensorSpan> state,
                                    int num_shards) {
  if (num_shards < 1) {
    return absl::InvalidArgumentError(absl::StrCat(PathOf(id), ": commit of no shards"));
  }
  const std::string from = TemporaryPath(id), digest = FullDigest(state);
  EV_ASSIGN_OR_RETURN(const bool there, IsThere(id, digest));
  if (there) {
    EV_RETURN_IF_ERROR(fs_.RemoveTree(from));
  } else {
    BundleWriter bundle(fs_, CheckpointPrefix(from));
    EV_RETURN_IF_ERROR(AddCheckpoint(id, state, digest, &bundle));
    EV_RETURN_IF_ERROR(CheckShards(id, bundle.ShardSizes(num_shards)));
    EV_RETURN_IF_ERROR(bundle.WriteIndex(num_shards));
    EV_RETURN_IF_ERROR(fs_.SyncDirectory(from));
    EV_RETURN_IF_ERROR(fs_.Rename(from, PathOf(id)));
  }
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(options_.directory));
  Tidy(id, state);
  return absl::OkStatus();
}

void DirectoryStore::Abandon(const CheckpointId& id) {
  const absl::Status status = fs_.RemoveTree(TemporaryPath(id));
  // The next Commit gets it.
  if (!status.ok()) log::Warning("checkpoint", "{}", std::string(status.message()));
}

// None of this makes a committed checkpoint less so.
void DirectoryStore::Tidy(const CheckpointId& id, absl::Span<const TensorSpan> state) {
  const absl::StatusOr<std::vector<CheckpointInfo>> all = ListCheckpoints(fs_, options_.directory);
  absl::Status status = all.status();
  if (status.ok()) {
    const auto fits = [&](const StoredState& stored) { return stored.CheckFits(state); };
    const auto is_good = [&](const StoredState& stored) {
      const absl::Status misfit = stored.CheckFits(state);
      return misfit.ok() ? stored.Verify() : misfit;
    };
    const RetentionPlan plan = PlanRetention(
        *all, {options_.keep_last, options_.keep_every}, id,
        [&](const CheckpointInfo& info) { return Opens(fs_, info, fits); },
        [&](const CheckpointInfo& info) { return Opens(fs_, info, is_good); });
    status = WriteNote(id, plan.kept);
    if (!status.ok()) log::Warning("checkpoint", "{}", std::string(status.message()));
    status = Retire(plan.retired);
  }
  if (!status.ok()) log::Warning("checkpoint", "old one kept: {}", std::string(status.message()));
  // Members of a view have one checkpoint under way at a time, and that is committed: what is left
  // is of views that have ended.
  status = RemoveLeftovers();
  if (!status.ok()) log::Warning("checkpoint", "{}", std::string(status.message()));
}

// A courtesy to TensorFlow: our own reader never looks at it.
absl::Status DirectoryStore::WriteNote(const CheckpointId& id,
                                       const std::vector<CheckpointInfo>& kept) {
  auto line = [](const char* field, const std::string& directory) {
    const std::string prefix = CheckpointPrefix(directory);
    return absl::StrCat(field, ": \"", absl::CEscape(prefix), "\"\n");
  };
  std::string note = line("model_checkpoint_path", id.DirectoryName());
  for (const CheckpointInfo& info : kept) {
    absl::StrAppend(&note, line("all_model_checkpoint_paths", BaseName(info.path)));
  }
  return PublishFile(fs_, JoinPath(options_.directory, kNote), note);
}

absl::Status DirectoryStore::Retire(const std::vector<CheckpointInfo>& retired) {
  if (retired.empty()) return absl::OkStatus();
  // Away at once, then piece by piece: a half-removed one must not look like a damaged one, not
  // even after a crash.
  for (const CheckpointInfo& info : retired) {
    EV_RETURN_IF_ERROR(fs_.RemoveTree(RetiredPath(info.path)));
    EV_RETURN_IF_ERROR(fs_.Rename(info.path, RetiredPath(info.path)));
  }
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(options_.directory));
  for (const CheckpointInfo& info : retired) {
    EV_RETURN_IF_ERROR(fs_.RemoveTree(RetiredPath(info.path)));
  }
  return absl::OkStatus();
}

absl::Status DirectoryStore::RemoveLeftovers() {
  const absl::StatusOr<std::vector<std::string>> names = fs_.List(options_.directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kTemporary) && !absl::StartsWith(name, kRetired) &&
        !absl::StartsWith(name, absl::StrCat(".", kNote, ".tmp-"))) {
      continue;
    }
    EV_RETURN_IF_ERROR(fs_.RemoveTree(JoinPath(options_.directory, name)));
  }
  return absl::OkStatus();
}

}  // namespace everstep
