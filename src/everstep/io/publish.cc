// io: temporary name, sync, rename, sync of the directory.
#include "everstep/io/publish.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/status.h"
#include "everstep/env/environment.h"

namespace everstep {

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

AtomicFile::AtomicFile(FileSystem& fs, std::string path, std::string temporary,
                       std::unique_ptr<WritableFile> file)
    : fs_(fs), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Open(FileSystem& fs,
                                                             const std::string& path, int mode) {
  std::string temporary = JoinPath(
      DirectoryOf(path),
      absl::StrCat(".", BaseName(path), ".tmp-", absl::Hex(RandomBits64(), absl::kZeroPad16)));
  // The rename at the end would put a file in the place of a device or pipe.
  if (fs.Exists(path) && absl::IsNotFound(fs.OpenForReading(path).status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": something that is not a file is there"));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> file =
      fs.OpenForWriting(temporary, FileSystem::Create::kExclusive, mode);
  if (absl::IsNotFound(file.status()) && !fs.IsDirectory(DirectoryOf(path))) {
    return absl::NotFoundError(
        absl::StrCat("cannot write ", path, ": there is no directory ", DirectoryOf(path)));
  }
  if (!file.ok()) {
    // Nobody has heard of the temporary name.
    return absl::Status(file.status().code(),
                        absl::StrReplaceAll(file.status().message(), {{temporary, path}}));
  }
  return std::unique_ptr<AtomicFile>(
      new AtomicFile(fs, path, std::move(temporary), *std::move(file)));
}

AtomicFile::~AtomicFile() {
  file_.reset();
  // Nothing can be done about a failure here; the name says that it is a leftover.
  if (!published_) (void)fs_.Remove(temporary_);
}

absl::Status AtomicFile::Publish() {
  EV_RETURN_IF_ERROR(file_->Sync());
  EV_RETURN_IF_ERROR(file_->Close());
  EV_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  published_ = true;
  return fs_.SyncDirectory(DirectoryOf(path_));
}

absl::Status PublishFile(FileSystem& fs, const std::string& path, std::string_view contents,
                         int mode) {
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Open(fs, path, mode));
  EV_RETURN_IF_ERROR(file->file().Append(contents));
  return file->Publish();
}

}  // namespace everstep
