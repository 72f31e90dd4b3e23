// checkpoint: the directory store.
#include "everstep/checkpoint/directory_store.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/publish.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

constexpr char kTemporary[] = ".tmp-";
constexpr char kRetired[] = ".old-";

}  // namespace

DirectoryStore::DirectoryStore(FileSystem& fs, std::string directory, int keep)
    : fs_(fs), directory_(std::move(directory)), keep_(keep) {}

std::string DirectoryStore::PathOf(const CheckpointId& id) const {
  return JoinPath(directory_, id.DirectoryName());
}

std::string DirectoryStore::TemporaryPath(const CheckpointId& id) const {
  return JoinPath(directory_, kTemporary + id.DirectoryName());
}

absl::Status DirectoryStore::MakeDirectory() {
  if (fs_.IsDirectory(directory_)) return absl::OkStatus();
  EV_RETURN_IF_ERROR(fs_.CreateDirectories(directory_));
  return fs_.SyncDirectory(DirectoryOf(directory_));
}

absl::Status DirectoryStore::Write(const std::string& path, absl::Span<const TensorSpan> state) {
  EV_RETURN_IF_ERROR(fs_.RemoveTree(path));
  EV_RETURN_IF_ERROR(fs_.CreateDirectories(path));
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                      BundleWriter::Open(fs_, JoinPath(path, "state")));
  for (const TensorSpan& tensor : state) EV_RETURN_IF_ERROR(writer->Add(tensor));
  std::string digest = DigestToBytes(FullDigest(state));
  EV_RETURN_IF_ERROR(writer->Add({kDigestKey,
                                  DType::kUInt8,
                                  {static_cast<int64_t>(digest.size())},
                                  reinterpret_cast<std::byte*>(digest.data())}));
  EV_RETURN_IF_ERROR(writer->Finish());
  return fs_.SyncDirectory(path);
}

absl::Status DirectoryStore::Save(const CheckpointId& id, absl::Span<const TensorSpan> state) {
  EV_RETURN_IF_ERROR(MakeDirectory());
  const std::string path = TemporaryPath(id);
  const absl::Status status = Write(path, state);
  // Gives the space of a full disk back; whether it can does not matter more than the error.
  if (!status.ok()) (void)fs_.RemoveTree(path);
  return status;
}

absl::Status DirectoryStore::Commit(const CheckpointId& id) {
  const std::string from = TemporaryPath(id), to = PathOf(id);
  if (!fs_.IsDirectory(from)) {
    return absl::FailedPreconditionError(absl::StrCat(from, ": commit of what was not saved"));
  }
  if (fs_.Exists(to)) {
    EV_RETURN_IF_ERROR(CommitAgain(id));
  } else {
    EV_RETURN_IF_ERROR(fs_.Rename(from, to));
  }
  EV_RETURN_IF_ERROR(fs_.SyncDirectory(directory_));
  NoteNewest(id);
  if (keep_ > 0) Retire();
  return absl::OkStatus();
}

// A step is pure: the same id saved twice must be the same state.
absl::Status DirectoryStore::CommitAgain(const CheckpointId& id) {
  const std::string from = TemporaryPath(id), to = PathOf(id);
  EV_ASSIGN_OR_RETURN(const auto mine, StoredState::Open(fs_, JoinPath(from, "state")));
  const auto theirs = StoredState::Open(fs_, JoinPath(to, "state"));
  if (theirs.ok() && (*theirs)->stored_digest() == mine->stored_digest() &&
      (*theirs)->Verify().ok()) {
    return fs_.RemoveTree(from);
  }
  return absl::AlreadyExistsError(
      absl::StrCat(to, ": a checkpoint of this name with another or a damaged state exists"));
}

void DirectoryStore::NoteNewest(const CheckpointId& id) {
  const std::string prefix = JoinPath(id.DirectoryName(), "state");
  const absl::Status status =
      PublishFile(fs_, JoinPath(directory_, "checkpoint"),
                  absl::StrCat("model_checkpoint_path: \"", prefix,
                               "\"\nall_model_checkpoint_paths: \"", prefix, "\"\n"));
  // A courtesy to TensorFlow: our own reader never looks at it.
  if (!status.ok()) log::Warning("checkpoint", "{}", std::string(status.message()));
}

void DirectoryStore::Retire() {
  const absl::StatusOr<std::vector<CheckpointInfo>> all = ListCheckpoints(fs_, directory_);
  absl::Status status = all.status();
  for (size_t i = 0; status.ok() && i + static_cast<size_t>(keep_) < all->size(); ++i) {
    // Away at once, then piece by piece: a half-removed one must not look like a damaged one.
    const std::string retired = JoinPath(directory_, kRetired + (*all)[i].id.DirectoryName());
    status = fs_.Rename((*all)[i].path, retired);
    if (status.ok()) status = fs_.RemoveTree(retired);
  }
  if (!status.ok()) log::Warning("checkpoint", "old one kept: {}", std::string(status.message()));
}

absl::Status DirectoryStore::RemoveLeftovers() {
  const absl::StatusOr<std::vector<std::string>> names = fs_.List(directory_);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kTemporary) && !absl::StartsWith(name, kRetired) &&
        !absl::StartsWith(name, ".checkpoint.tmp-")) {
      continue;
    }
    EV_RETURN_IF_ERROR(fs_.RemoveTree(JoinPath(directory_, name)));
  }
  return absl::OkStatus();
}

}  // namespace everstep
