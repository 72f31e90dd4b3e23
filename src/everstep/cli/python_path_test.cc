// cli: rules of where the heartbeat file is found.
#include "everstep/cli/python_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"
#include "everstep/supervise/heartbeat_module.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

class PythonPathTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text = "x") {
    ASSERT_TRUE(fs_.CreateDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(PublishFile(fs_, path, text).ok());
  }
  absl::StatusOr<std::string> Find(const std::string& program) {
    return HeartbeatDirectory(fs_, program,
                              [this](const std::string& name) -> std::optional<std::string> {
                                const auto at = environment_.find(name);
                                if (at == environment_.end()) return std::nullopt;
                                return at->second;
                              });
  }

  MemoryFileSystem fs_;
  std::map<std::string, std::string> environment_;
  const std::string cached_ = absl::StrCat("/c/everstep/python-", kVersion);
};

TEST_F(PythonPathTest, OfAnInstalledCommandItIsBesideIt) {
  Put("/usr/share/everstep/python/everstep_heartbeat.py");
  EXPECT_EQ(*Find("/usr/bin/everstep"), "/usr/share/everstep/python");
}

TEST_F(PythonPathTest, OfABuildItIsInItsSources) {
  Put("/src/python/everstep_heartbeat.py");
  environment_["HOME"] = "/c";
  EXPECT_NE(*Find("/src/build/bin/everstep"), "/src/python") << "that is no build: who knows whose";
  Put("/src/build/CMakeCache.txt");
  EXPECT_EQ(*Find("/src/build/bin/everstep"), "/src/python");
  Put("/src/build/static/CMakeCache.txt");
  EXPECT_EQ(*Find("/src/build/static/bin/everstep"), "/src/python");
}

TEST_F(PythonPathTest, OfACommandThatWasCopiedItIsWrittenFromTheCopyInIt) {
  environment_ = {{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}};
  ASSERT_EQ(Find("/opt/everstep").value_or("none"), cached_);
  const std::string path = JoinPath(cached_, "everstep_heartbeat.py");
  EXPECT_EQ(*ReadWholeFile(fs_, path), HeartbeatModule());
  EXPECT_THAT(std::string(HeartbeatModule()), HasSubstr("def beat("));
  const int before = fs_.changes();
  EXPECT_EQ(*Find("/opt/everstep"), cached_);
  EXPECT_EQ(fs_.changes(), before) << "it is there already";
  Put(path, "of another build");
  EXPECT_EQ(*Find("/opt/everstep"), cached_);
  EXPECT_EQ(*ReadWholeFile(fs_, path), HeartbeatModule());
  environment_["XDG_CACHE_HOME"] = "relative";
  EXPECT_THAT(*Find("/opt/everstep"), HasSubstr("/h/.cache/everstep/python-"));
}

TEST_F(PythonPathTest, WithNoPlaceToWriteToItSaysWhatToSet) {
  const absl::Status status = Find("/opt/everstep").status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set XDG_CACHE_HOME or HOME"));
  environment_["HOME"] = "/h";
  fs_.FailAfter(0);
  EXPECT_THAT(std::string(Find("/opt/everstep").status().message()),
              HasSubstr("(XDG_CACHE_HOME says where to)"));
}

}  // namespace
}  // namespace everstep
