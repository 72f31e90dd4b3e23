// cli: checkpoint drill: a restart rehearsed, without starting anything.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/env/clock.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

// One checkpoint, read as a restart reads it: every byte, every checksum, the digest.
struct Tried {
  CheckpointInfo info;
  absl::Status status;
  int64_t bytes = 0;
  double seconds = 0;

  std::string name() const { return BaseName(info.path); }
};

Tried Try(FileSystem& fs, const CheckpointInfo& info) {
  Tried tried{info};
  const TimePoint begin = RealClock().Now();
  const auto stored = StoredState::Open(fs, info.prefix());
  tried.status = stored.ok() ? (*stored)->Verify() : stored.status();
  tried.seconds = ToSeconds(RealClock().Now() - begin);
  if (stored.ok()) {
    for (const BundleEntry& entry : (*stored)->tensors()) tried.bytes += entry.size;
  }
  return tried;
}

// What TensorFlow's own note of the newest checkpoint says, as tf.train.latest_checkpoint reads it.
struct TensorFlowNote {
  std::string file, prefix;  // `prefix`: empty when there is no note
  absl::Status status;       // of what it points to
};

TensorFlowNote ReadNote(FileSystem& fs, const std::string& directory) {
  TensorFlowNote note{JoinPath(directory, "checkpoint"), "", absl::OkStatus()};
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, note.file);
  if (!text.ok()) {
    note.status = text.status();
    return note;
  }
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::string name;
    if (!absl::ConsumePrefix(&line, "model_checkpoint_path:")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "\"") || !absl::ConsumeSuffix(&line, "\"") ||
        !absl::CUnescape(line, &name)) {
      break;
    }
    note.prefix = !name.empty() && name.front() == '/' ? name : JoinPath(directory, name);
  }
  if (note.prefix.empty()) {
    note.status = absl::DataLossError(absl::StrCat(note.file, ": has no model_checkpoint_path"));
    return note;
  }
  const auto stored = StoredState::Open(fs, note.prefix);
  note.status = stored.ok() ? (*stored)->Verify() : stored.status();
  return note;
}

struct Drill {
  std::string directory;
  std::vector<Tried> rejected;         // newer than `taken`, newest first
  std::optional<Tried> taken;          // by a restart now
  std::vector<Tried> rejected_behind;  // between the two
  std::optional<Tried> behind;         // by a restart after `taken` was lost too
  TensorFlowNote note;
};

// How many steps would be run again if the one were lost and the other taken.
std::optional<Step> StepsBetween(const CheckpointId& lost, const CheckpointId& taken) {
  if (lost.history != taken.history) return std::nullopt;
  return lost.step - taken.step;
}

ordered_json ToJson(const Tried& tried) {
  ordered_json json = {{"name", tried.name()},
                       {"prefix", tried.info.prefix()},
                       {"step", tried.info.id.step},
                       {"history", tried.info.id.history}};
  if (tried.status.ok()) {
    json["bytes"] = tried.bytes;
    json["seconds"] = tried.seconds;
  } else {
    json["error"] = std::string(tried.status.message());
  }
  return json;
}

ordered_json ToJson(const std::vector<Tried>& list) {
  ordered_json json = ordered_json::array();
  for (const Tried& tried : list) json.push_back(ToJson(tried));
  return json;
}

ordered_json ToJson(const Drill& drill) {
  ordered_json json = {{"directory", drill.directory},
                       {"rejected", ToJson(drill.rejected)},
                       {"taken", nullptr},
                       {"rejected_behind", ToJson(drill.rejected_behind)},
                       {"behind", nullptr},
                       {"steps_between", nullptr},
                       {"tensorflow",
                        {{"file", drill.note.file},
                         {"prefix", drill.note.prefix},
                         {"good", drill.note.status.ok()}}}};
  if (drill.taken.has_value()) json["taken"] = ToJson(*drill.taken);
  if (drill.behind.has_value()) {
    json["behind"] = ToJson(*drill.behind);
    const auto steps = StepsBetween(drill.taken->info.id, drill.behind->info.id);
    if (steps.has_value()) json["steps_between"] = *steps;
  }
  if (!drill.note.status.ok()) {
    json["tensorflow"]["error"] = std::string(drill.note.status.message());
  }
  return json;
}

std::string TextOf(const std::vector<Tried>& rejected) {
  std::string text;
  for (const Tried& tried : rejected) {
    absl::StrAppend(&text, tried.name(), ": rejected: ", tried.status.message(), "\n");
  }
  return text;
}

std::string TextOf(const Tried& tried, const char* what) {
  return absl::StrFormat("%s: %s; step %d, %d bytes read and verified in %s\n", tried.name(), what,
                         tried.info.id.step, tried.bytes,
                         tried.seconds < 1 ? absl::StrFormat("%.1f ms", 1e3 * tried.seconds)
                                           : absl::StrFormat("%.1f s", tried.seconds));
}

std::string TextOf(const Drill& drill) {
  std::string text = absl::StrCat(drill.directory, "\n", TextOf(drill.rejected));
  if (drill.taken.has_value()) {
    absl::StrAppend(&text, TextOf(*drill.taken, "a restart takes it"),
                    TextOf(drill.rejected_behind));
  }
  if (drill.behind.has_value()) {
    absl::StrAppend(&text, TextOf(*drill.behind, "stands behind it"));
    const auto steps = StepsBetween(drill.taken->info.id, drill.behind->info.id);
    absl::StrAppend(&text, "if ", drill.taken->name(), " is lost, a restart takes ",
                    drill.behind->name(), " and runs ",
                    steps.has_value() ? absl::StrCat(*steps, *steps == 1 ? " step" : " steps")
                                      : "the steps of another history",
                    " again\n");
  } else if (drill.taken.has_value()) {
    absl::StrAppend(&text, "no good one stands behind it: if it is lost, all is lost\n");
  }
  const TensorFlowNote& note = drill.note;
  absl::StrAppend(&text, "TensorFlow's note: ");
  if (note.status.ok()) {
    absl::StrAppend(&text, note.prefix, ", good\n");
  } else {
    absl::StrAppend(&text, note.prefix,
                    note.prefix.empty() ? "" : ", not good: ", note.status.message(), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<int> DrillRestart(FileSystem& fs, const std::string& job, bool json,
                                 std::ostream& out) {
  Drill drill;
  const std::optional<std::string> directory = CheckpointsDirectory(fs, job);
  if (!directory.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(job, ": neither a job directory nor one of checkpoints"));
  }
  drill.directory = *directory;
  EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all, ListCheckpoints(fs, *directory));
  if (all.empty()) {
    return absl::NotFoundError(absl::StrCat(*directory, ": there is no checkpoint in it"));
  }
  for (auto at = all.rbegin(); at != all.rend() && !drill.behind.has_value(); ++at) {
    Tried tried = Try(fs, *at);
    if (!tried.status.ok()) {
      (drill.taken.has_value() ? drill.rejected_behind : drill.rejected).push_back(tried);
    } else {
      (drill.taken.has_value() ? drill.behind : drill.taken) = std::move(tried);
    }
  }
  drill.note = ReadNote(fs, *directory);
  if (json) {
    out << ToJson(drill).dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  } else {
    out << TextOf(drill);
  }
  if (!drill.taken.has_value()) {
    return absl::DataLossError(
        absl::StrCat(*directory, ": none of its ", all.size(), " checkpoints is good"));
  }
  return drill.behind.has_value() ? 2 : 1;
}

}  // namespace everstep
