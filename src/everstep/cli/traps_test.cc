// cli: rules of the traps that are told before a program starts.
#include "everstep/cli/traps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMirrored[] =
    "s = tf.distribute.MultiWorkerMirroredStrategy()\n"
    "m = tf.keras.Sequential()\n"
    "m.fit(x, callbacks=[tf.keras.callbacks.BackupAndRestore(d)])\n";

class TrapsTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(fs_.CreateDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(PublishFile(fs_, path, text).ok());
  }
  std::vector<std::string> Find(const std::vector<std::string>& program) {
    looked_at_.clear();
    return FindTraps({spec_, program,
                      [this](const std::string& name) -> std::optional<std::string> {
                        const auto at = environment_.find(name);
                        if (at == environment_.end()) return std::nullopt;
                        return at->second;
                      },
                      fs_,
                      [this](const std::string& interpreter) {
                        looked_at_.push_back(interpreter);
                        return packages_;
                      }});
  }
  std::vector<std::string> OfScript(const std::string& text) {
    Put("/w/train.py", text);
    return Find({"python3", "-u", "/w/train.py", "--epochs", "3"});
  }

  JobSpec spec_;
  std::map<std::string, std::string> environment_;
  std::optional<PythonPackages> packages_ = PythonPackages{"2.18.0", "3.9.0", ""};
  std::vector<std::string> looked_at_;
  MemoryFileSystem fs_;
};

TEST_F(TrapsTest, Keras3UnderTheStrategyOfManyWorkersIsToldWithItsCure) {
  EXPECT_THAT(OfScript(kMirrored),
              ElementsAre("train.py uses MultiWorkerMirroredStrategy, under which model.fit of "
                          "Keras 3.9.0 (tf.keras of TensorFlow 2.18.0) fails: python3 -m pip "
                          "install tf-keras, and set TF_USE_LEGACY_KERAS=1"));
  packages_->tf_keras = "2.18.0";
  EXPECT_THAT(OfScript(kMirrored), ElementsAre(HasSubstr(" fails: set TF_USE_LEGACY_KERAS=1")));
  EXPECT_THAT(looked_at_, ElementsAre("python3"));
}

TEST_F(TrapsTest, KerasIsNoTrapWhereItWorks) {
  packages_->tensorflow = "2.15.1";
  packages_->keras = "2.15.0";
  EXPECT_THAT(OfScript(kMirrored), IsEmpty());
  packages_->keras = "3.0.0";
  EXPECT_THAT(OfScript(kMirrored), IsEmpty()) << "it is there, but not tf.keras";
  packages_ = PythonPackages{"2.16.1", "3.3.0", "2.16.0"};
  EXPECT_THAT(OfScript(kMirrored), ElementsAre(HasSubstr("TensorFlow 2.16.1")));
  for (const char* yes : {"1", "true", "True"}) {
    environment_["TF_USE_LEGACY_KERAS"] = yes;
    EXPECT_THAT(OfScript(kMirrored), IsEmpty()) << yes;
  }
  environment_["TF_USE_LEGACY_KERAS"] = "0";
  EXPECT_THAT(OfScript(kMirrored), ElementsAre(HasSubstr("TensorFlow 2.16.1")));
  EXPECT_THAT(OfScript(absl::StrCat("os.environ['TF_USE_LEGACY_KERAS'] = '1'\n", kMirrored)),
              IsEmpty());
  packages_.reset();
  EXPECT_THAT(OfScript(kMirrored), IsEmpty()) << "the interpreter does not answer";
}

TEST_F(TrapsTest, AnInterpreterIsAskedOnlyWhenItMatters) {
  EXPECT_THAT(OfScript("import torch\ntorch.save(x)\n"), IsEmpty());
  EXPECT_THAT(OfScript("# MultiWorkerMirroredStrategy and keras\nprint(1)\n"), IsEmpty());
  EXPECT_THAT(looked_at_, IsEmpty());
}

TEST_F(TrapsTest, LegacyKerasThatIsNotInstalledIsTold) {
  environment_["TF_USE_LEGACY_KERAS"] = "1";
  EXPECT_THAT(OfScript(kMirrored),
              ElementsAre(HasSubstr("tf_keras, which python3 does not have: python3 -m pip "
                                    "install tf-keras")));
}

TEST_F(TrapsTest, AScriptThatTrainsAndSavesNothingIsToldHow) {
  const std::string fit = "import tensorflow as tf\nm = tf.keras.Sequential()\nm.fit(x)\n";
  EXPECT_THAT(OfScript(fit), ElementsAre(HasSubstr("callbacks.BackupAndRestore(DIR)")));
  EXPECT_THAT(OfScript("import torch\nloss.backward()\n"), ElementsAre(HasSubstr("torch.save")));
  EXPECT_THAT(OfScript("import torch\nloss.backward()\ntorch.save(m, p)\n"), IsEmpty());
  EXPECT_THAT(OfScript("print('hello')\n"), IsEmpty());
  spec_.checkpoint_path = "/ckpt";
  EXPECT_THAT(OfScript(fit), IsEmpty()) << "who says where it saves knows that it does";
}

TEST_F(TrapsTest, ModulesBesideTheScriptAreReadToo) {
  Put("/w/lib/saving.py", "def keep(m): torch.save(m, 'x')\n");
  EXPECT_THAT(OfScript("import torch\nfrom lib.saving import keep\nloss.backward()\n"), IsEmpty());
  EXPECT_THAT(OfScript("import torch\nimport os, lib.saving as s\nloss.backward()\n"), IsEmpty());
  EXPECT_THAT(OfScript("import torch\nimport lib.other\nloss.backward()\n"),
              ElementsAre(HasSubstr("torch.save")));
}

TEST_F(TrapsTest, ATfConfigThatDisagreesIsSaidAndThatItIsReplaced) {
  spec_.workers = 2;
  environment_["TF_CONFIG"] =
      R"({"cluster":{"worker":["a:1","b:1","c:1"],"ps":["d:1"]},"task":{"type":"worker","index":1}})";
  EXPECT_THAT(Find({"true"}),
              ElementsAre("the TF_CONFIG of the environment (worker:1 of 3 workers, 1 ps, on other "
                          "hosts too) is replaced: each task gets its own, for 2 workers"));
  environment_["TF_CONFIG"] =
      R"({"cluster":{"worker":["localhost:1","127.0.0.1:2"]},"task":{"type":"worker","index":1}})";
  EXPECT_THAT(Find({"true"}), IsEmpty());
  spec_.workers = 3;
  EXPECT_THAT(Find({"true"}), ElementsAre(HasSubstr("worker:1 of 2 workers) is replaced")));
  environment_["TF_CONFIG"] =
      R"({"cluster":{"worker":["a:1","b:1","c:1"]},"task":{"type":"worker","index":0}})";
  EXPECT_THAT(Find({"true"}), ElementsAre(HasSubstr("on other hosts too")));
  environment_["TF_CONFIG"] = "{";
  EXPECT_THAT(Find({"true"}), ElementsAre(HasSubstr("could not be understood")));
}

TEST_F(TrapsTest, ProxiesAreSaidToBePassedBy) {
  environment_["HTTPS_PROXY"] = "http://p:3128";
  EXPECT_THAT(Find({"true"}), ElementsAre(HasSubstr("HTTPS_PROXY is set: for the tasks, Everstep "
                                                    "adds the hosts of the job to no_proxy")));
  environment_["HTTPS_PROXY"] = "";
  EXPECT_THAT(Find({"true"}), IsEmpty());
}

TEST_F(TrapsTest, GpusThatAreNotThereAreRefused) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_TRUE(CheckGpus(spec_, 4, none, 0).ok()) << "nobody asked for any";
  spec_.gpus_per_task = 2;
  EXPECT_TRUE(CheckGpus(spec_, 4, none, 8).ok());
  const absl::Status status = CheckGpus(spec_, 4, none, 7);
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("for 4 tasks asks for 8 GPUs, but this host has 7;"));
  const auto some = [](const std::string&) { return std::optional<std::string>("0,3,-1,5"); };
  EXPECT_TRUE(CheckGpus(spec_, 1, some, 0).ok());
  EXPECT_THAT(std::string(CheckGpus(spec_, 2, some, 8).message()),
              HasSubstr("asks for 4 GPUs, but CUDA_VISIBLE_DEVICES has 2;"));
}

// --- the script ---

TEST_F(TrapsTest, AScriptIsFoundByItsShebangToo) {
  TempDirectory dir;
  FileSystem& real = RealFileSystem();
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  auto file = real.OpenForWriting(dir.File("train"), FileSystem::Create::kExclusive, 0755);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("#!/usr/bin/env -S python3.11 -u\nimport torch\n").ok());
  ASSERT_TRUE((*file)->Close().ok());
  const auto script = FindPythonScript({dir.File("train")}, none, real);
  ASSERT_TRUE(script.has_value());
  EXPECT_EQ(script->interpreter, "python3.11");
  EXPECT_EQ(script->name, "train");
  EXPECT_TRUE(script->Mentions("import torch"));
  EXPECT_FALSE(FindPythonScript({"/bin/sh", "-c", "python3 x.py"}, none, real).has_value());
  EXPECT_FALSE(FindPythonScript({"python3", dir.File("none.py")}, none, real).has_value());
  EXPECT_FALSE(FindPythonScript({"python3"}, none, real).has_value());
  EXPECT_EQ(
      FindPythonScript({"/usr/bin/python3", "-X", "dev", "-c", "import os"}, none, real)->text,
      "import os\n");
}

TEST(LookAtPackages, RunsTheInterpreterAndImportsNothing) {
  const auto packages = LookAtPackages("python3");
  ASSERT_TRUE(packages.has_value());
  EXPECT_FALSE(LookAtPackages("/no/such/python").has_value());
  EXPECT_FALSE(LookAtPackages("true").has_value());
}

TEST(LookAtPackages, AnInterpreterThatHangsIsGivenUp) {
  TempDirectory dir;
  auto file =
      RealFileSystem().OpenForWriting(dir.File("python"), FileSystem::Create::kExclusive, 0755);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("#!/bin/sh\nexec sleep 60\n").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_FALSE(LookAtPackages(dir.File("python")).has_value());
}

}  // namespace
}  // namespace everstep
