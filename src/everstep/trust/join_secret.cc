// trust: the join secret of a user, in a file of that user's alone.
#include "everstep/trust/join_secret.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/env/private_file.h"

namespace everstep {
namespace {

using Environment = std::function<std::optional<std::string>(const std::string&)>;

constexpr char kFileVariable[] = "EVERSTEP_JOIN_SECRET_FILE";
constexpr char kOtherwise[] = ", or name another file by EVERSTEP_JOIN_SECRET_FILE";

std::optional<std::string> Said(const Environment& environment, const char* name) {
  std::optional<std::string> value = environment(name);
  if (value.has_value() && value->empty()) value.reset();
  return value;
}

absl::Status Refused(std::string text) {
  return WithExitCode(absl::FailedPreconditionError(std::move(text)), kExitConfiguration);
}

absl::Status CannotMake(const absl::Status& why, const std::string& path) {
  return Refused(absl::StrCat("the join secret ", path, " cannot be made: ", why.message(),
                              "; make that possible", kOtherwise));
}

// Whole or not at all: it is written under a name of its own, and gets its name by link(2), which
// only the first of several gets. OK when somebody else was first.
absl::Status Make(const std::string& path) {
  FileSystem& fs = RealFileSystem();
  const std::string home_part = path.substr(0, path.rfind('/'));
  EV_RETURN_IF_ERROR(MakePrivateDirectory(home_part));
  const std::string temp = absl::StrFormat("%s.%016x", path, RandomBits64());
  auto file = fs.OpenForWriting(temp, FileSystem::Create::kExclusive, 0600);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(JobSecret::Generate().ToHexForFile());
  if (status.ok()) status = (*file)->Sync();
  if (absl::Status closed = (*file)->Close(); status.ok()) status = closed;
  if (status.ok()) status = fs.Link(temp, path);
  (void)fs.Remove(temp);
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::StatusOr<JobSecret> SecretIn(const PrivateFile& file, const std::string& path) {
  if (!file.is_file) {
    return Refused(absl::StrCat("the join secret ", path, " is no file; remove it", kOtherwise));
  }
  if (!file.own) {
    return Refused(absl::StrCat("the join secret ", path,
                                " belongs to another user than this process runs as, who could "
                                "join your jobs; take a copy of your own",
                                kOtherwise));
  }
  // First: no advice about the mode of a file that is something else.
  absl::StatusOr<JobSecret> secret = JobSecret::FromHex(file.text);
  if (!secret.ok()) {
    return Refused(absl::StrCat("the join secret ", path,
                                " does not hold 64 hex digits: it is damaged or another file; copy "
                                "it again from another host of the job",
                                kOtherwise));
  }
  if ((file.mode & 077) == 0) return secret;
  return Refused(absl::StrFormat(
      "the join secret %s can be read or written by others (its mode is %04o), who could join "
      "your jobs; run: chmod 600 %s",
      path, file.mode, path));
}

}  // namespace

std::string JoinSecretPath(const Environment& environment) {
  if (auto file = Said(environment, kFileVariable)) return AbsolutePath(*file);
  if (auto home = Said(environment, "HOME")) return JoinPath(*home, ".everstep/join-secret");
  return "";
}

absl::StatusOr<JobSecret> ReadJoinSecret(const Environment& environment) {
  const std::string path = JoinSecretPath(environment);
  if (path.empty()) {
    return Refused(
        "there is no place for the join secret: HOME is not set; set it, or name a file by "
        "EVERSTEP_JOIN_SECRET_FILE");
  }
  absl::StatusOr<PrivateFile> file = ReadPrivateFile(path);
  if (absl::IsNotFound(file.status())) {
    if (Said(environment, kFileVariable)) {
      return Refused(absl::StrCat(kFileVariable, "=", path,
                                  ": there is no such file; copy ~/.everstep/join-secret of the "
                                  "host that starts the coordinator there, or unset it"));
    }
    if (absl::Status made = Make(path); !made.ok()) return CannotMake(made, path);
    file = ReadPrivateFile(path);
  }
  if (!file.ok()) {
    return Refused(absl::StrCat("the join secret ", path, " cannot be read: ",
                                file.status().message(), "; make it yours", kOtherwise));
  }
  return SecretIn(*file, path);
}

}  // namespace everstep
