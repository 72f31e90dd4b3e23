// data: Batch(s, r) is a pure function, whatever cache, threads and order of calls.
#include "everstep/data/record_batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "everstep/env/clock.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/example.h"
#include "everstep/io/publish.h"
#include "everstep/io/tfrecord.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Deadline kNever = Deadline::max();

class RecordBatchSourceTest : public ::testing::Test {
 protected:
  // Records with raw bytes and an id, in two files.
  void WriteRecords(int64_t n) {
    std::string bytes[2];
    for (int64_t i = 0; i < n; ++i) {
      ExampleBuilder builder;
      const std::string image(5, static_cast<char>('a' + i % 26));
      builder.AddBytes("image", std::string_view(image));
      builder.AddInt64s("id", {i});
      AppendRecord(&bytes[i < n / 3 ? 0 : 1], builder.Finish());
    }
    ASSERT_TRUE(PublishFile(fs_, dir_.File("a"), bytes[0]).ok());
    ASSERT_TRUE(PublishFile(fs_, dir_.File("b"), bytes[1]).ok());
  }
  Dataset Description() const {
    return Dataset::FromTfRecord({dir_.File("a"), dir_.File("b")})
        .Features({Raw("image", DType::kUInt8, {5}), FixedLen("id", DType::kInt64)});
  }
  std::unique_ptr<RecordBatchSource> Open(const Dataset& dataset, const BatchOptions& options) {
    auto source = RecordBatchSource::Open(fs_, RealClock(), dataset, options);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  std::unique_ptr<RecordBatchSource> Open(const BatchOptions& options) {
    return Open(Description(), options);
  }
  std::shared_ptr<const Batch> Get(RecordBatchSource& source, Step step, int r) {
    auto batch = source.Get(step, r, cancel_, kNever);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() ? *batch : nullptr;
  }
  static std::vector<int64_t> Ids(const Batch& batch) {
    const absl::Span<int64_t> ids = batch.Find("id")->as<int64_t>();
    return {ids.begin(), ids.end()};
  }
  static std::string BytesOf(const Batch& batch) {
    std::string bytes;
    for (const TensorSpan& field : batch.fields) {
      bytes += field.name + ShapeToString(field.shape);
      bytes.append(reinterpret_cast<const char*>(field.data), field.num_bytes());
    }
    return bytes + std::to_string(batch.examples) + "/" + std::to_string(batch.global_examples);
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
  Cancel cancel_;
};

TEST_F(RecordBatchSourceTest, EveryRecordComesExactlyOnceAnEpoch) {
  for (const int64_t n : {1, 7, 64, 101}) {
    WriteRecords(n);
    for (const int64_t batch : {1, 5, 16, 200}) {
      for (const int replicas : {1, 3, 4}) {
        for (const bool shuffle : {true, false}) {
          const Dataset dataset =
              shuffle ? Description().Shuffle({true, 4, 3}) : Description().NoShuffle();
          const auto source =
              Open(dataset, {.global_batch = batch, .num_replicas = replicas, .seed = 3});
          const int64_t steps = source->steps_per_epoch();
          ASSERT_EQ(steps, (n + batch - 1) / batch);
          for (int64_t epoch = 0; epoch < 2; ++epoch) {
            std::vector<int64_t> seen;
            for (Step s = epoch * steps; s < (epoch + 1) * steps; ++s) {
              int64_t examples = 0;
              for (int r = 0; r < replicas; ++r) {
                const auto got = Get(*source, s, r);
                ASSERT_EQ(got->global_examples, source->GlobalExamples(s));
                const Share share = ShareOf(got->global_examples, r, replicas);
                ASSERT_EQ(got->examples, share.end - share.begin);
                const std::vector<int64_t> ids = Ids(*got);
                ASSERT_EQ(ids, source->RecordsOf(s, r));
                for (int64_t i = 0; i < got->examples; ++i) {
                  ASSERT_EQ(static_cast<char>(got->Find("image")->as<uint8_t>()[5 * i + 4]),
                            'a' + ids[i] % 26);
                }
                seen.insert(seen.end(), ids.begin(), ids.end());
                examples += got->examples;
              }
              ASSERT_EQ(examples, source->GlobalExamples(s));
            }
            std::sort(seen.begin(), seen.end());
            ASSERT_EQ(static_cast<int64_t>(seen.size()), n);
            for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], i);
          }
        }
      }
    }
  }
}

TEST_F(RecordBatchSourceTest, ABatchDependsOnNothingButStepAndReplica) {
  WriteRecords(50);
  const BatchOptions plain = {
      .global_batch = 12, .num_replicas = 5, .seed = 1, .threads = 0, .cache_bytes = 0};
  const auto reference = Open(plain);
  std::vector<std::pair<std::pair<Step, int>, std::string>> want;
  for (Step s = 0; s < 15; ++s) {
    for (int r = 0; r < 5; ++r) want.push_back({{s, r}, BytesOf(*Get(*reference, s, r))});
  }
  uint64_t random = 1;
  for (const int threads : {0, 1, 3}) {
    for (const int64_t cache : {int64_t{0}, int64_t{1} << 20}) {
      for (const int depth : {1, 4, 100}) {
        BatchOptions options = plain;
        options.threads = threads;
        options.cache_bytes = cache;
        options.prefetch = depth;
        const auto source = Open(options);
        EXPECT_EQ(source->fingerprint(), reference->fingerprint());
        std::vector<std::shared_ptr<const Batch>> held;  // memory in use is never used again
        std::vector<size_t> asked;
        for (int round = 0; round < 300; ++round) {
          random = Mix64(random + 1);
          if (round % 10 == 0) {
            source->Expect({static_cast<Step>(random % 15), static_cast<Step>(random % 15 + 4)},
                           static_cast<int>(random >> 20) % 3, 5);
          }
          // Mostly forward, as an engine asks, and often anywhere.
          const size_t i =
              random % 3 != 0 ? (round * 7) % want.size() : (random >> 8) % want.size();
          held.push_back(Get(*source, want[i].first.first, want[i].first.second));
          asked.push_back(i);
        }
        for (size_t k = 0; k < held.size(); ++k) {
          ASSERT_EQ(BytesOf(*held[k]), want[asked[k]].second) << threads << " " << depth;
        }
      }
    }
  }
}

TEST_F(RecordBatchSourceTest, WorkAheadIsUsedInOrderAndSurvivesRepeatsAndRewinds) {
  WriteRecords(100);
  const auto reference = Open({.global_batch = 10, .num_replicas = 2, .threads = 0});
  const auto source = Open({.global_batch = 10, .num_replicas = 2, .threads = 2, .prefetch = 4});
  auto check = [&](Step s, int r) {
    ASSERT_EQ(BytesOf(*Get(*source, s, r)), BytesOf(*Get(*reference, s, r)));
  };
  source->Expect({0, 1000}, 0, 2);
  for (Step s = 0; s < 30; ++s) {
    check(s, 0);
    check(s, 1);
  }
  check(29, 1);  // a step done again
  source->Expect({5, 1000}, 1, 2);
  for (Step s = 5; s < 20; ++s) check(s, 1);
  for (Step s = 100; s < 110; ++s) check(s, 0);  // outside what was expected
}

TEST_F(RecordBatchSourceTest, TheTailIsAStepOfItsOwnOrDropped) {
  WriteRecords(10);
  const auto keep = Open({.global_batch = 4, .num_replicas = 3, .tail = TailPolicy::kKeep});
  EXPECT_EQ(keep->steps_per_epoch(), 3);
  EXPECT_EQ(keep->GlobalExamples(2), 2);
  EXPECT_EQ(keep->GlobalExamples(3), 4);
  const auto drop = Open({.global_batch = 4, .num_replicas = 3, .tail = TailPolicy::kDrop});
  EXPECT_EQ(drop->steps_per_epoch(), 2);
  EXPECT_EQ(drop->GlobalExamples(1), 4);
  EXPECT_NE(keep->fingerprint(), drop->fingerprint());
}

TEST_F(RecordBatchSourceTest, AReplicaWithoutExamplesGetsAnEmptyBatch) {
  WriteRecords(10);
  const auto source = Open({.global_batch = 2, .num_replicas = 5});
  int empty = 0;
  for (int r = 0; r < 5; ++r) {
    const auto batch = Get(*source, 0, r);
    EXPECT_EQ(batch->global_examples, 2);
    EXPECT_EQ(batch->Find("image")->shape, (std::vector<int64_t>{batch->examples, 5}));
    EXPECT_NE(batch->Find("image")->data, nullptr);
    empty += batch->examples == 0;
  }
  EXPECT_EQ(empty, 3);
}

TEST_F(RecordBatchSourceTest, MapGetsAKeyOfSeedEpochAndRecordAndTheCacheHoldsTheUnmapped) {
  WriteRecords(6);
  auto add_key = [](uint64_t key, absl::Span<const TensorSpan> fields) {
    EXPECT_EQ(fields[0].shape, std::vector<int64_t>{5});
    *fields[1].as<int64_t>().data() += static_cast<int64_t>(key % 1000000) * 1000;
    return absl::OkStatus();
  };
  const auto mapped = Open(Description().Map("add key", add_key), {.global_batch = 6, .seed = 4});
  const std::vector<int64_t> first = Ids(*Get(*mapped, 0, 0)), again = Ids(*Get(*mapped, 0, 0));
  const std::vector<int64_t> next_epoch = Ids(*Get(*mapped, 1, 0));
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0] % 1000, mapped->RecordsOf(0, 0)[0]);
  for (int64_t a : first) {
    for (int64_t b : next_epoch) EXPECT_NE(a / 1000, b / 1000);
  }
  EXPECT_NE(mapped->fingerprint(), Open({.global_batch = 6, .seed = 4})->fingerprint());
  const auto refusing = Open(Description().Map("no",
                                               [](uint64_t, absl::Span<const TensorSpan>) {
                                                 return absl::InvalidArgumentError("no");
                                               }),
                             {.global_batch = 1});
  EXPECT_THAT(std::string(refusing->Get(0, 0, cancel_, kNever).status().message()),
              HasSubstr("record"));
}

TEST_F(RecordBatchSourceTest, AFlippedByteAnywhereIsFoundWithFileAndOffset) {
  WriteRecords(9);
  for (const char* name : {"a", "b"}) {
    const std::string good = ReadWholeFile(fs_, dir_.File(name)).value();
    const int64_t record_bytes = static_cast<int64_t>(good.size()) / (name[0] == 'a' ? 3 : 6);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] ^= 0x20;
      ASSERT_TRUE(PublishFile(fs_, dir_.File(name), bad).ok());
      auto source = RecordBatchSource::Open(
          fs_, RealClock(), Description(), {.global_batch = 9, .threads = static_cast<int>(i % 2)});
      absl::Status status = source.status();
      if (source.ok()) {
        (*source)->Expect({0, 2}, 0, 1);
        status = (*source)->Get(0, 0, cancel_, kNever).status();
      }
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << i;
      ASSERT_THAT(std::string(status.message()),
                  StartsWith(absl::StrCat(dir_.File(name), ": corrupted record at offset ",
                                          static_cast<int64_t>(i) / record_bytes * record_bytes)));
    }
    ASSERT_TRUE(PublishFile(fs_, dir_.File(name), good).ok());
  }
}

TEST_F(RecordBatchSourceTest, AFileCutShortUnderARunningJobIsFound) {
  WriteRecords(9);
  const auto source = Open({.global_batch = 9, .threads = 0});
  // In place: the open file shrinks.
  const std::string good = ReadWholeFile(fs_, dir_.File("b")).value();
  auto file = fs_.OpenForWriting(dir_.File("b"), FileSystem::Create::kTruncate);
  ASSERT_TRUE((*file)->Append(std::string_view(good).substr(0, good.size() - 1)).ok());
  const absl::Status status = source->Get(0, 0, cancel_, kNever).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.File("b")));
}

TEST_F(RecordBatchSourceTest, ARecordThatIsNotAsDescribedIsNamed) {
  WriteRecords(9);
  const Dataset dataset = Dataset::FromTfRecord({dir_.File("a"), dir_.File("b")})
                              .NoShuffle()
                              .Features({Raw("image", DType::kUInt8, {6})});
  const auto source = Open(dataset, {.global_batch = 9});
  const absl::Status status = source->Get(0, 0, cancel_, kNever).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), dir_.File("a") +
                                  ": record 0 (at offset 0): feature \"image\" has 5 bytes, "
                                  "expected 6 (wanted image: raw uint8[6])");
}

TEST_F(RecordBatchSourceTest, OptionsThatMakeNoSenseAreRefused) {
  WriteRecords(3);
  for (const BatchOptions& options :
       {BatchOptions{.global_batch = 0}, BatchOptions{.global_batch = 4, .num_replicas = 0},
        BatchOptions{.global_batch = 4, .tail = TailPolicy::kDrop}}) {
    EXPECT_EQ(RecordBatchSource::Open(fs_, RealClock(), Description(), options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  WriteRecords(0);
  EXPECT_THAT(
      std::string(RecordBatchSource::Open(fs_, RealClock(), Description(), {.global_batch = 1})
                      .status()
                      .message()),
      HasSubstr("has no records"));
}

TEST_F(RecordBatchSourceTest, CancelAndDeadlineEndAGet) {
  WriteRecords(300);
  const auto source = Open({.global_batch = 300, .threads = 0});
  EXPECT_EQ(source->Get(0, 0, cancel_, RealClock().Now()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(source->Get(0, 1, cancel_, kNever).status().code(), absl::StatusCode::kInternal);
  cancel_.Set();
  EXPECT_EQ(source->Get(0, 0, cancel_, kNever).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(RecordBatchSourceTest, TheFingerprintTellsWhatABatchDependsOn) {
  WriteRecords(20);
  const BatchOptions base = {.global_batch = 4, .num_replicas = 2, .seed = 7};
  const uint64_t fingerprint = Open(base)->fingerprint();
  BatchOptions seed = base, batch = base, replicas = base, how = base;
  seed.seed = 8;
  batch.global_batch = 5;
  replicas.num_replicas = 4;
  how.threads = 3;
  how.cache_bytes = 0;
  how.prefetch = 1;
  EXPECT_NE(Open(seed)->fingerprint(), fingerprint);
  EXPECT_NE(Open(batch)->fingerprint(), fingerprint);
  EXPECT_NE(Open(replicas)->fingerprint(), fingerprint);
  EXPECT_EQ(Open(how)->fingerprint(), fingerprint);
  EXPECT_NE(Open(Description().NoShuffle(), base)->fingerprint(), fingerprint);
  EXPECT_NE(Open(Description().Features({FixedLen("id", DType::kInt64)}), base)->fingerprint(),
            fingerprint);
}

}  // namespace
}  // namespace everstep
