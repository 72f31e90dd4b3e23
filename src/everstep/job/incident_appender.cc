// job: appending to incidents.jsonl.
#include "everstep/job/incident_appender.h"

#include <utility>

#include "everstep/base/status.h"
#include "everstep/io/publish.h"

namespace everstep {

void IncidentAppender::SetEnd(int64_t size, bool torn) {
  end_ = size;
  made_ = size > 0;
  if (torn) pending_ = "\n";
}

absl::Status IncidentAppender::Open() {
  EV_ASSIGN_OR_RETURN(file_, fs_.OpenForWriting(path_, FileSystem::Create::kAppend));
  EV_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(fs_, path_));
  const std::string behind = static_cast<int64_t>(text.size()) > end_ ? text.substr(end_) : "";
  const bool ours = pending_.compare(0, behind.size(), behind) == 0;
  if (ours && !unsynced_) {
    written_ = behind.size();
  } else {
    // All of it once more, on a line of its own; readers pass over the second of two equal lines.
    end_ = static_cast<int64_t>(text.size());
    written_ = 0;
    if (!text.empty() && text.back() != '\n') pending_.insert(0, "\n");
  }
  unsynced_ = false;
  if (!made_) EV_RETURN_IF_ERROR(fs_.SyncDirectory(DirectoryOf(path_)));
  made_ = true;
  return absl::OkStatus();
}

absl::Status IncidentAppender::Flush() {
  if (file_ != nullptr && !fs_.Exists(path_)) {  // somebody has removed it
    file_.reset();
    end_ = 0;
    made_ = false;
  }
  absl::Status status = file_ == nullptr ? Open() : absl::OkStatus();
  if (status.ok() && written_ < pending_.size()) {
    status = file_->Append(std::string_view(pending_).substr(written_));
  }
  if (status.ok()) {
    status = file_->Sync();
    unsynced_ = !status.ok();
  }
  if (!status.ok()) {
    file_.reset();
    return status;
  }
  end_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  written_ = 0;
  return absl::OkStatus();
}

}  // namespace everstep
