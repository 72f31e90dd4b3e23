// cli: checkpoint.
#include "everstep/cli/checkpoint.h"

#include <iostream>
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
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string TypeName(int32_t dtype) {
  if (dtype == 7) return "string";
  return IsKnownDType(dtype) ? NameOf(static_cast<DType>(dtype)) : absl::StrCat("type-", dtype);
}

// One checkpoint: its name for people and the prefix of its files.
struct Named {
  std::string name;
  std::string prefix;
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
    for (const CheckpointInfo& info : all) found.push_back({BaseName(info.path), info.prefix()});
    return found;
  }
  EV_ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(fs, path));
  found.push_back({prefix, prefix});
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

}  // namespace

absl::Status ListCheckpointsIn(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out) {
  EV_ASSIGN_OR_RETURN(const std::vector<Named> all, Resolve(fs, path));
  ordered_json list = ordered_json::array();
  for (const Named& named : all) {
    const auto stored = StoredState::Open(fs, named.prefix);
    if (stored.ok()) {
      const StoredState& state = **stored;
      list.push_back({{"name", named.name},
                      {"prefix", named.prefix},
                      {"tensors", state.tensors().size()},
                      {"bytes", BytesOf(state)},
                      {"digest", state.stored_digest()}});
      if (!json) {
        out << named.name << "  " << Tensors(state) << ", " << BytesOf(state) << " bytes  "
            << (state.stored_digest().empty() ? "-" : state.stored_digest()) << "\n";
      }
    } else {
      const std::string why(stored.status().message());
      list.push_back({{"name", named.name}, {"prefix", named.prefix}, {"error", why}});
      if (!json) out << named.name << "  DAMAGED: " << why << "\n";
    }
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
                         {"type", TypeName(entry.dtype)},
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
    out << "  " << entry.name << "  " << TypeName(entry.dtype) << ShapeToString(entry.shape) << "  "
        << entry.size << " bytes\n";
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

void AddCheckpoint(CLI::App& app, Invocation* invocation) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "List, show and check checkpoints");
  checkpoint->group("Data and checkpoints");
  checkpoint->require_subcommand(1);
  struct Options {
    std::string path;
    bool json = false;
  };
  const auto o = std::make_shared<Options>();
  using Verb = absl::Status (*)(FileSystem&, const std::string&, bool, std::ostream&);
  auto add = [&](const char* name, const char* help, Verb run) {
    CLI::App* verb = checkpoint->add_subcommand(name, help);
    verb->add_option("DIR", o->path,
                     "job directory, directory of checkpoints, checkpoint, or TensorFlow prefix")
        ->required();
    verb->add_flag("--json", o->json, "for scripts");
    verb->callback([o, run, invocation] {
      invocation->exit_code =
          Fail(WithOutput(AsBadData(run(RealFileSystem(), o->path, o->json, std::cout))));
    });
  };
  add("ls", "All checkpoints, newest last", ListCheckpointsIn);
  add("show", "The tensors of the newest good checkpoint, or of the one named", ShowCheckpoint);
  add("verify", "Read every byte, check every checksum and digest", VerifyCheckpoints);
  add("digest", "One line: the digest of the state of the newest good checkpoint", PrintDigest);
}

}  // namespace everstep
