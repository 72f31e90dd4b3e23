// cli: records and checkpoint, from the command line to output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/cli/command.h"
#include "everstep/cli/records.h"
#include "everstep/cli/verb_test.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

VerbOutcome Everstep(std::vector<std::string> arguments) {
  return RunVerb({AddRecords, AddCheckpoint}, std::move(arguments));
}

class FilesTest : public ::testing::Test {
 protected:
  std::string Put(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(PublishFile(fs_, dir_.File(name), bytes).ok());
    return dir_.File(name);
  }
  // A record file of two images of two bytes, by the verb itself.
  std::string Import() {
    const std::string images = Put("images", std::string("\0\0\x08\x02\0\0\0\2\0\0\0\2abcd", 16));
    const std::string labels = Put("labels", std::string("\0\0\x08\x01\0\0\0\2\7\3", 10));
    const std::string output = dir_.File("out.tfrecord");
    const VerbOutcome outcome = Everstep(
        {"records", "import", "idx", "--images", images, "--labels", labels, "--output", output});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, output + ": 2 examples\n");
    return output;
  }
  std::string Damage(const std::string& path, size_t byte) {
    std::string bytes = ReadWholeFile(fs_, path).value();
    bytes[byte] ^= 1;
    EXPECT_TRUE(PublishFile(fs_, path, bytes).ok());
    return path;
  }
  void SaveCheckpoint(Step step) {
    DirectoryStore store(fs_, {dir_.File("job/checkpoints"), 0, 0, ""});
    EXPECT_TRUE(fs_.CreateDirectories(dir_.File("job")).ok());
    weights_ = {static_cast<float>(step), 2, 3};
    ASSERT_TRUE(store.SaveShard({step, 0, {1, 1}}, State(), Shard{}).ok());
    ASSERT_TRUE(store.Commit({step, 0, {1, 1}}, State(), 1).ok());
  }
  std::vector<TensorSpan> State() {
    return {{"model/w", DType::kFloat32, {3}, reinterpret_cast<std::byte*>(weights_.data())}};
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
  std::vector<float> weights_;
};

TEST_F(FilesTest, ImportedRecordsAreListedVerifiedAndPrinted) {
  const std::string file = Import();
  const std::string size = std::to_string(ReadWholeFile(fs_, file)->size());
  EXPECT_EQ(Everstep({"records", "ls", file}).out, file + ": 2 records, " + size +
                                                       " bytes\n"
                                                       "  image: bytes list, 1 value of 2 bytes\n"
                                                       "  label: int64 list, 1 value\n");
  EXPECT_EQ(Everstep({"records", "verify", file}).out,
            file + ": OK, 2 records, " + size + " bytes\n");
  EXPECT_EQ(Everstep({"records", "cat", file}).out,
            "record 0: image=[\"ab\"] label=[7]\nrecord 1: image=[\"cd\"] label=[3]\n");
  EXPECT_EQ(Everstep({"records", "cat", file, "-n", "1"}).out,
            "record 0: image=[\"ab\"] label=[7]\n");
}

TEST_F(FilesTest, RecordsInJson) {
  const std::string file = Import();
  const auto ls = nlohmann::json::parse(Everstep({"records", "ls", file, "--json"}).out);
  EXPECT_EQ(ls[0]["records"], 2);
  EXPECT_EQ(ls[0]["features"]["label"]["kind"], "int64 list");
  const auto verify = nlohmann::json::parse(Everstep({"records", "verify", file, "--json"}).out);
  EXPECT_EQ(verify[0]["ok"], true);
  const auto cat =
      nlohmann::json::parse(Everstep({"records", "cat", file, "-n", "1", "--json"}).out);
  EXPECT_EQ(cat["features"]["label"]["int64"][0], 7);
  EXPECT_EQ(cat["features"]["image"]["bytes"][0], "YWI=");
}

TEST_F(FilesTest, DamagedAndMissingRecordsExit65WithOneLine) {
  const std::string file = Damage(Import(), 20);
  for (const char* verb : {"verify", "ls", "cat"}) {
    const VerbOutcome outcome = Everstep({"records", verb, file});
    EXPECT_EQ(outcome.code, 65) << verb;
    EXPECT_THAT(outcome.err, MatchesRegex("everstep: [^\n]*corrupted record at offset 0[^\n]*\n"));
  }
  const VerbOutcome both = Everstep({"records", "verify", "--json", file, dir_.File("none")});
  EXPECT_EQ(both.code, 65);
  const auto json = nlohmann::json::parse(both.out);
  EXPECT_EQ(json[0]["ok"], false);
  EXPECT_EQ(json[1]["ok"], false);
  EXPECT_EQ(Everstep({"records", "ls", dir_.File("none")}).code, 65);
  EXPECT_EQ(Everstep({"records", "ls", Put("gz", std::string("\x1f\x8b\x08\0", 4))}).code, 65);
  EXPECT_EQ(Everstep({"records", "import", "idx", "--images", file, "--labels", file, "--output",
                      dir_.File("x")})
                .code,
            65);
  EXPECT_FALSE(fs_.Exists(dir_.File("x")));
}

TEST_F(FilesTest, ADirectoryIsNoRecordFile) {
  for (const char* verb : {"verify", "ls", "cat"}) {
    const VerbOutcome outcome = Everstep({"records", verb, dir_.path()});
    EXPECT_EQ(outcome.code, 65) << verb;
    EXPECT_EQ(outcome.err,
              "everstep: cannot read " + dir_.path() + ": it is a directory; name a file in it\n");
  }
}

TEST_F(FilesTest, AFileThatIsNotThereIsSoughtFromTheWorkingDirectory) {
  EXPECT_EQ(Everstep({"records", "ls", "no/such"}).err,
            "everstep: cannot open no/such: No such file or directory (relative to " +
                AbsolutePath(".") + ")\n");
}

TEST_F(FilesTest, AnOutputThatCannotBeWrittenIsNoFaultOfTheData) {
  const std::string images = Put("images", std::string("\0\0\x08\x02\0\0\0\2\0\0\0\2abcd", 16));
  const std::string labels = Put("labels", std::string("\0\0\x08\x01\0\0\0\2\7\3", 10));
  const VerbOutcome outcome = Everstep({"records", "import", "idx", "--images", images, "--labels",
                                        labels, "--output", dir_.File("nope/x")});
  EXPECT_EQ(outcome.code, 78);
  EXPECT_EQ(outcome.err, "everstep: cannot write " + dir_.File("nope/x") +
                             ": there is no directory " + dir_.File("nope") + "\n");
}

TEST_F(FilesTest, RecordsThatAreNoExamplesArePrintedAsSuch) {
  const std::string file =
      Put("f", std::string("\5\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19", 21));
  EXPECT_EQ(Everstep({"records", "cat", file}).out, "record 0: 5 bytes, not a tf.train.Example\n");
  EXPECT_EQ(Everstep({"records", "ls", file}).out, file + ": 1 record, 21 bytes\n");
}

TEST_F(FilesTest, ACommandLineThatIsNotUnderstoodIsRefused) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"records"},
                                                    {"records", "ls"},
                                                    {"records", "cat", "f", "-n", "-2"},
                                                    {"records", "import", "idx", "--images", "a"},
                                                    {"checkpoint", "digest"},
                                                    {"checkpoint", "frobnicate", "x"}}) {
    EXPECT_EQ(Everstep(arguments).code, 2);
  }
}

TEST_F(FilesTest, DigestIsOneLineOfTheNewestGoodCheckpoint) {
  SaveCheckpoint(10);
  const std::string ten = FullDigest(State());
  SaveCheckpoint(20);
  const std::string twenty = FullDigest(State());
  EXPECT_EQ(Everstep({"checkpoint", "digest", dir_.File("job")}).out, twenty + "\n");
  EXPECT_EQ(Everstep({"checkpoint", "digest", dir_.File("job/checkpoints/step-10-h0-v1.1")}).out,
            ten + "\n");
  Damage(dir_.File("job/checkpoints/step-20-h0-v1.1/state.data-00000-of-00001"), 2);
  EXPECT_EQ(Everstep({"checkpoint", "digest", dir_.File("job/checkpoints")}).out, ten + "\n");
  const VerbOutcome damaged =
      Everstep({"checkpoint", "digest", dir_.File("job/checkpoints/step-20-h0-v1.1")});
  EXPECT_EQ(damaged.code, 65);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err, HasSubstr("does not match"));
}

TEST_F(FilesTest, CheckpointsAreListedShownAndVerified) {
  SaveCheckpoint(10);
  SaveCheckpoint(20);
  const std::string digest = FullDigest(State());
  const std::string job = dir_.File("job");
  EXPECT_THAT(Everstep({"checkpoint", "ls", job}).out,
              HasSubstr("old  1 tensor, 12 bytes  " + digest +
                        "\n(index and sizes are checked, the bytes are not"));
  EXPECT_THAT(Everstep({"checkpoint", "show", job}).out,
              HasSubstr("  model/w  float32[3]  12 bytes\n"));
  EXPECT_EQ(Everstep({"checkpoint", "verify", job}).out,
            "step-10-h0-v1.1: OK\nstep-20-h0-v1.1: OK\n");
  const auto show = nlohmann::json::parse(Everstep({"checkpoint", "show", job, "--json"}).out);
  EXPECT_EQ(show["digest"], digest);
  EXPECT_EQ(show["tensors"][0]["shape"][0], 3);
  const auto ls = nlohmann::json::parse(Everstep({"checkpoint", "ls", job, "--json"}).out);
  EXPECT_EQ(ls[1]["name"], "step-20-h0-v1.1");
  Damage(job + "/checkpoints/step-10-h0-v1.1/state.index", 9);
  const VerbOutcome verify = Everstep({"checkpoint", "verify", job});
  EXPECT_EQ(verify.code, 65);
  EXPECT_THAT(verify.out, StartsWith("step-10-h0-v1.1: DAMAGED: "));
  EXPECT_THAT(verify.out, HasSubstr("step-20-h0-v1.1: OK\n"));
  EXPECT_THAT(Everstep({"checkpoint", "ls", job}).out, HasSubstr("DAMAGED"));
}

TEST_F(FilesTest, WhatIsNoCheckpointExits65WithOneLine) {
  ASSERT_TRUE(fs_.CreateDirectories(dir_.File("empty/checkpoints")).ok());
  for (const std::string& path :
       {dir_.File("none"), dir_.path(), dir_.File("empty"), Put("file", "text")}) {
    for (const char* verb : {"ls", "show", "verify", "digest"}) {
      const VerbOutcome outcome = Everstep({"checkpoint", verb, path});
      EXPECT_EQ(outcome.code, 65) << verb << " " << path;
      EXPECT_THAT(outcome.err, MatchesRegex("everstep: [^\n]+\n"));
    }
  }
}

}  // namespace
}  // namespace everstep
