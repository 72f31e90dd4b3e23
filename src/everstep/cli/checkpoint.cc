// cli: checkpoint.
#include "everstep/cli/checkpoint.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/tensor_span.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/cli/command.h"
#include "everstep/env/clock.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/resume.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// One checkpoint: its name for people and the prefix of its files.
struct Named {
  std::string name;
  std::string prefix;
  std::optional<CheckpointId> id;  // nothing for one that is not among its like
};

// The checkpoints that `path` stands for, newest last.
absl::StatusOr<std::vector<Named>> Resolve(FileSystem& fs, const std::string& path) {
  const std::optional<std::string> directory = CheckpointsDirectory(fs, path);
  std::vector<Named> found;
  if (directory.has_value()) {
    EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all, ListCheckpoints(fs, *directory));
    if (all.empty()) {
      return absl::NotFoundError(absl::StrCat(*directory, ": there is no checkpoint in it"));
    }
    for (const CheckpointInfo& info : all) {
      found.push_back({BaseName(info.path), info.prefix(), info.id});
    }
    return found;
  }
  EV_ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(fs, path));
  found.push_back({prefix, prefix, std::nullopt});
  return found;
}

int64_t BytesOf(const StoredState& stored) {
  int64_t bytes = 0;
  for (const BundleEntry& entry : stored.tensors()) bytes += entry.size;
  return bytes;
}

std::string Tensors(const StoredState& stored) {
  const size_t n = stored.tensors().size();
  return absl::StrCat(n, n == 1 ? " tensor" : " tensors");
}

// One line of `ls`, with its object for scripts.
ordered_json ListOne(FileSystem& fs, const Named& named, std::string* line) {
  ordered_json json = {{"name", named.name}, {"prefix", named.prefix}};
  *line = named.name;
  if (named.id.has_value()) {
    json["step"] = named.id->step;
    json["history"] = named.id->history;
    json["view"] = named.id->view.ToString();
    absl::StrAppend(line, "  step ", named.id->step, ", history ", named.id->history, ", view ",
                    named.id->view.ToString());
  }
  const absl::StatusOr<double> written = fs.ModifiedAt(named.prefix + ".index");
  if (written.ok()) {
    const double age = std::max(0.0, WallSeconds() - *written);
    json["age_seconds"] = age;
    absl::StrAppend(line, "  ", AgeText(age), " old");
  }
  const auto stored = StoredState::Open(fs, named.prefix);
  if (!stored.ok()) {
    json["error"] = std::string(stored.status().message());
    absl::StrAppend(line, "  DAMAGED: ", stored.status().message());
    return json;
  }
  const StoredState& state = **stored;
  json["tensors"] = state.tensors().size();
  json["bytes"] = BytesOf(state);
  json["digest"] = state.stored_digest();
  absl::StrAppend(line, "  ", Tensors(state), ", ", BytesOf(state), " bytes  ",
                  state.stored_digest().empty() ? "-" : state.stored_digest());
  return json;
}

}  // namespace

std::string DTypeName(int32_t dtype) {
  static constexpr const char* kNames[] = {
      nullptr,    "float32",   "float64", "int32",       "uint8",        "int16",   "int8",
      "string",   "complex64", "int64",   "bool",        "qint8",        "quint8",  "qint32",
      "bfloat16", "qint16",    "quint16", "uint16",      "complex128",   "float16", "resource",
      "variant",  "uint32",    "uint64",  "float8_e5m2", "float8_e4m3fn"};
  if (dtype > 0 && dtype < static_cast<int32_t>(std::size(kNames))) return kNames[dtype];
  return absl::StrCat("type-", dtype);
}

std::string CheckpointGlance::Describe() const {
  return absl::StrCat("step ", step, " (", name, age_seconds ? ", " : "",
                      age_seconds ? AgeText(*age_seconds) + " old" : "", ")");
}

std::optional<CheckpointGlance> GlanceAtCheckpoints(FileSystem& fs, const std::string& job) {
  const auto all = ListCheckpoints(fs, CheckpointsPath(job));
  if (!all.ok()) return std::nullopt;
  for (auto at = all->rbegin(); at != all->rend(); ++at) {
    if (!at->opened.ok()) continue;
    CheckpointGlance glance{at->id.step, BaseName(at->path), std::nullopt};
    const absl::StatusOr<double> written = fs.ModifiedAt(at->prefix() + ".index");
    if (written.ok()) glance.age_seconds = std::max(0.0, WallSeconds() - *written);
    return glance;
  }
  return std::nullopt;
}

absl::Status ListCheckpointsIn(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const std::vector<Named> all, Resolve(fs, path));
  ordered_json list = ordered_json::array();
  for (const Named& named : all) {
    std::string line;
    list.push_back(ListOne(fs, named, &line));
    if (!json) out << line << "\n";
  }
  if (json) {
    out << Dump(list);
  } else {
    out << "(index and sizes are checked, the bytes are not: everstep checkpoint verify does)\n";
  }
  return absl::OkStatus();
}

absl::Status ShowCheckpoint(FileSystem& fs, const std::string& path, bool json, std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(fs, path));
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<StoredState> stored, StoredState::Open(fs, prefix));
  if (json) {
    ordered_json tensors = ordered_json::array();
    for (const BundleEntry& entry : stored->tensors()) {
      tensors.push_back({{"name", entry.name},
                         {"type", DTypeName(entry.dtype)},
                         {"shape", entry.shape},
                         {"bytes", entry.size}});
    }
    out << Dump({{"prefix", prefix},
                 {"digest", stored->stored_digest()},
                 {"bytes", BytesOf(*stored)},
                 {"tensors", tensors}});
    return absl::OkStatus();
  }
  out << prefix << "\n";
  for (const BundleEntry& entry : stored->tensors()) {
    out << "  " << entry.name << "  " << DTypeName(entry.dtype) << ShapeToString(entry.shape)
        << "  " << entry.size << " bytes\n";
  }
  out << Tensors(*stored) << ", " << BytesOf(*stored) << " bytes, digest "
      << (stored->stored_digest().empty() ? "not stored" : stored->stored_digest()) << "\n";
  return absl::OkStatus();
}

absl::Status VerifyCheckpoints(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const std::vector<Named> all, Resolve(fs, path));
  ordered_json list = ordered_json::array();
  absl::Status first_error;
  for (const Named& named : all) {
    const auto stored = StoredState::Open(fs, named.prefix);
    const absl::Status status = stored.ok() ? (*stored)->Verify() : stored.status();
    const std::string message(status.message());
    ordered_json entry = {{"name", named.name}, {"ok", status.ok()}};
    if (!status.ok()) entry["error"] = message;
    list.push_back(std::move(entry));
    if (!json) out << named.name << ": " << (status.ok() ? "OK" : "DAMAGED: " + message) << "\n";
    if (first_error.ok()) first_error = status;
  }
  if (json) out << Dump(list);
  return first_error;
}

absl::Status PrintDigest(FileSystem& fs, const std::string& path, bool json, std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(fs, path));
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<StoredState> stored, StoredState::Open(fs, prefix));
  EV_ASSIGN_OR_RETURN(const std::string digest, stored->ComputeDigest());
  if (!stored->stored_digest().empty() && digest != stored->stored_digest()) {
    return stored->Verify();  // says so
  }
  if (json) {
    out << Dump({{"prefix", prefix}, {"digest", digest}});
  } else {
    out << digest << "\n";
  }
  return absl::OkStatus();
}

namespace {

// What `latest` stands for; any other text stands for itself.
absl::StatusOr<std::string> OrLatest(const std::string& path) {
  if (path != "latest") return path;
  return FindJob(RealFileSystem(), path);
}

constexpr char kCheckpointFooter[] = R"(Exit codes: 0 good, 2 usage, 65 damaged or not there.

Examples:
  everstep checkpoint ls latest
  everstep checkpoint verify runs/a
  everstep checkpoint digest runs/a/checkpoints/step-940-h0-v1.1
  everstep checkpoint diff runs/a runs/b
  everstep checkpoint drill runs/a
)";

}  // namespace

void AddCheckpoint(CLI::App& app, Invocation* invocation) {
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "List, show, check and compare checkpoints");
  checkpoint->group("Data and checkpoints");
  checkpoint->require_subcommand(1);
  checkpoint->footer(kCheckpointFooter);
  struct Options {
    std::string path, other;
    bool json = false;
  };
  const auto o = std::make_shared<Options>();
  constexpr char kWhere[] =
      "job directory (latest: the newest under runs/), directory of checkpoints, checkpoint, or "
      "TensorFlow prefix";
  auto add_verb = [&](const char* name, const char* help, const char* argument) {
    CLI::App* verb = checkpoint->add_subcommand(name, help);
    verb->add_option(argument, o->path, kWhere)->required();
    verb->add_flag("--json", o->json, "for scripts");
    return verb;
  };
  using Verb = absl::Status (*)(FileSystem&, const std::string&, bool, std::ostream&);
  auto add = [&](const char* name, const char* help, Verb run) {
    add_verb(name, help, "DIR")->callback([o, run, invocation] {
      const absl::StatusOr<std::string> path = OrLatest(o->path);
      invocation->exit_code = Fail(WithOutput(
          AsBadData(path.ok() ? run(RealFileSystem(), *path, o->json, std::cout) : path.status())));
    });
  };
  // 0 or 1 is the answer; Fail's code, that there is none.
  auto answer = [invocation](const absl::Status& status, bool yes) {
    invocation->exit_code = Fail(WithOutput(AsBadData(status)));
    if (invocation->exit_code == 0 && !yes) invocation->exit_code = 1;
  };
  add("ls", "All checkpoints, newest last", ListCheckpointsIn);
  add("show", "The tensors of the newest good checkpoint, or of the one named", ShowCheckpoint);
  add("verify", "Read every byte, check every checksum and digest", VerifyCheckpoints);
  add("digest", "One line: the digest of the state of the newest good checkpoint", PrintDigest);
  CLI::App* diff = add_verb("diff", "What differs between two checkpoints", "A");
  diff->add_option("B", o->other, "the other one, named likewise")->required();
  diff->footer("Exit codes: 0 the states are equal, 1 they differ, 65 one cannot be read.");
  diff->callback([o, answer] {
    const absl::StatusOr<std::string> a = OrLatest(o->path), b = OrLatest(o->other);
    if (!a.ok() || !b.ok()) return answer(a.ok() ? b.status() : a.status(), false);
    const absl::StatusOr<bool> equal =
        DiffCheckpoints(RealFileSystem(), *a, *b, o->json, std::cout);
    answer(equal.status(), equal.ok() && *equal);
  });
  CLI::App* drill =
      add_verb("drill", "Rehearse a restart: what would be taken, what stands behind it", "JOB");
  drill->footer(
      "Exit codes: 0 a good checkpoint, and a second one behind it, 1 only one, 65 none.");
  drill->callback([o, answer] {
    const absl::StatusOr<std::string> path = OrLatest(o->path);
    if (!path.ok()) return answer(path.status(), false);
    const absl::StatusOr<int> good = DrillRestart(RealFileSystem(), *path, o->json, std::cout);
    answer(good.status(), good.ok() && *good >= 2);
  });
}

}  // namespace everstep
