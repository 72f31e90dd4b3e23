// supervise: verification of TensorFlow checkpoints.
#include "everstep/supervise/checkpoint_check.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/io/bundle_reader.h"
#include "everstep/io/publish.h"
#include "everstep/job/record.h"

namespace everstep {
namespace {

constexpr size_t kMaxDirectories = 3;
// An index is held in memory. One of ten thousand tensors takes a megabyte; more is something else
// that is named so, a search index for instance.
constexpr int64_t kMaxIndex = int64_t{64} << 20;

// Only for reading; every read is refused after the deadline: a checkpoint may have any size.
class HurriedFileSystem : public FileSystem {
 public:
  HurriedFileSystem(FileSystem& fs, const Clock& clock, Deadline deadline)
      : fs_(fs), clock_(clock), deadline_(deadline) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) override {
    EV_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, fs_.OpenForReading(path));
    return std::make_unique<File>(std::move(file), *this);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string&, Create,
                                                               int) override {
    return No();
  }
  absl::Status CreateDirectories(const std::string&) override { return No(); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return fs_.List(path);
  }
  absl::Status Rename(const std::string&, const std::string&) override { return No(); }
  absl::Status Link(const std::string&, const std::string&) override { return No(); }
  absl::Status Remove(const std::string&) override { return No(); }
  absl::Status RemoveTree(const std::string&) override { return No(); }
  absl::Status SyncDirectory(const std::string&) override { return No(); }
  bool Exists(const std::string& path) override { return fs_.Exists(path); }
  bool IsDirectory(const std::string& path) override { return fs_.IsDirectory(path); }

 private:
  class File : public RandomAccessFile {
   public:
    File(std::unique_ptr<RandomAccessFile> file, const HurriedFileSystem& owner)
        : file_(std::move(file)), owner_(owner) {}
    int64_t size() const override { return file_->size(); }
    absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const override {
      if (owner_.clock_.Now() >= owner_.deadline_) {
        return absl::DeadlineExceededError("no time left to read it");
      }
      return file_->ReadAt(offset, out);
    }

   private:
    const std::unique_ptr<RandomAccessFile> file_;
    const HurriedFileSystem& owner_;
  };

  static absl::Status No() { return absl::InternalError("only for reading"); }

  FileSystem& fs_;
  const Clock& clock_;
  const Deadline deadline_;
};

}  // namespace

CheckpointVerdict CheckCheckpoint(FileSystem& fs, const FoundCheckpoint& checkpoint,
                                  const Clock& clock, Deadline deadline, std::string* why) {
  if (checkpoint.kind == CheckpointKind::kOther) return CheckpointVerdict::kUnknown;
  const std::string prefix = checkpoint.kind == CheckpointKind::kSavedModel
                                 ? JoinPath(checkpoint.path, "variables/variables")
                                 : checkpoint.path;
  const auto index = fs.OpenForReading(prefix + ".index");
  if (index.ok() && (*index)->size() > kMaxIndex) return CheckpointVerdict::kUnknown;
  HurriedFileSystem hurried(fs, clock, deadline);
  const auto reader = BundleReader::Open(hurried, prefix);
  const absl::Status status = reader.ok() ? (*reader)->Verify() : reader.status();
  if (status.ok()) return CheckpointVerdict::kGood;
  // One that its program deletes meanwhile, because it has newer ones, is gone and not damaged.
  if (!absl::IsDataLoss(status) || !fs.Exists(prefix + ".index")) {
    return CheckpointVerdict::kUnknown;
  }
  *why = std::string(status.message());
  return CheckpointVerdict::kDamaged;
}

std::vector<Note> CheckNewest(FileSystem& fs, const std::vector<FoundCheckpoint>& known,
                              const Clock& clock, Deadline deadline) {
  std::vector<Note> notes;
  std::set<std::string> directories;
  for (size_t i = 0; i < known.size() && directories.size() < kMaxDirectories; ++i) {
    const FoundCheckpoint& newest = known[i];
    const std::string directory = DirectoryOf(newest.path);
    if (newest.kind == CheckpointKind::kOther || directories.count(directory) > 0) continue;
    std::string why, ignored;
    const CheckpointVerdict verdict = CheckCheckpoint(fs, newest, clock, deadline, &why);
    // One that is gone was not the newest.
    if (verdict == CheckpointVerdict::kUnknown && clock.Now() < deadline) continue;
    directories.insert(directory);
    if (verdict != CheckpointVerdict::kDamaged) continue;
    std::string text = absl::StrCat("checkpoint ", newest.path, " is damaged: ", why);
    std::string good;
    const char* which = "the one before it";
    for (size_t j = i + 1; j < known.size() && good.empty(); ++j) {
      if (known[j].kind != newest.kind || DirectoryOf(known[j].path) != directory) continue;
      if (CheckCheckpoint(fs, known[j], clock, deadline, &ignored) == CheckpointVerdict::kGood) {
        good = known[j].path;
      } else {
        which = "an older one";
      }
    }
    if (good.empty()) {
      absl::StrAppend(&text,
                      "; no older one that is good was seen beside it: if the program does "
                      "not start with it, move it away");
    } else {
      absl::StrAppend(&text, "; ", which, ", ", good,
                      ", is good: if the program does not start, move the damaged one away and "
                      "name the good one in ",
                      JoinPath(directory, "checkpoint"));
    }
    notes.push_back({record_kind::kCheckpointRejected, 0, std::move(text)});
  }
  return notes;
}

}  // namespace everstep
