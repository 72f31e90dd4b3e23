// data: batches from a Dataset: random access to the records of any step and replica.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/keyed_random.h"
#include "everstep/data/batch_source.h"
#include "everstep/data/buffer_pool.h"
#include "everstep/data/dataset.h"
#include "everstep/data/decoder.h"
#include "everstep/data/example_cache.h"
#include "everstep/data/record_index.h"
#include "everstep/data/work_ahead.h"

namespace everstep {

// What becomes of the last examples of an epoch that do not fill a global batch: a step of their
// own, or not used in that epoch.
enum class TailPolicy { kKeep, kDrop };

struct BatchOptions {
  int64_t global_batch = 0;  // examples of a step, over all replicas
  int num_replicas = 1;
  uint64_t seed = 0;
  TailPolicy tail = TailPolicy::kKeep;
  int threads = 1;                         // that work ahead; 0: Get makes every batch itself
  int prefetch = 8;                        // batches made ahead at most
  int64_t cache_bytes = int64_t{1} << 30;  // no cache when the decoded data set is larger
};

// Step s is step s % steps_per_epoch of epoch s / steps_per_epoch. Every record is checked when it
// is read and decoded; a cached one is not read again.
class RecordBatchSource : public BatchSource {
 public:
  // `fs` and `clock` outlive it. kNotFound, kDataLoss, kInvalidArgument.
  static absl::StatusOr<std::unique_ptr<RecordBatchSource>> Open(FileSystem& fs, const Clock& clock,
                                                                 const Dataset& dataset,
                                                                 const BatchOptions& options);

  // kDataLoss for damaged records, kInvalidArgument for ones that are not as described; both name
  // file, record and offset.
  absl::StatusOr<std::shared_ptr<const Batch>> Get(Step step, int r, const Cancel& cancel,
                                                   Deadline deadline) override;
  void Expect(StepRange steps, int replica_begin, int replica_end) override;
  int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  int64_t GlobalExamples(Step step) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

  int64_t num_records() const { return index_->size(); }
  // The records that make Batch(step, r), in order, counted over all files.
  std::vector<int64_t> RecordsOf(Step step, int r) const;
  // "PATH: record 17 (at offset 1234)"
  std::string DescribeRecord(int64_t record) const { return index_->Describe(record); }

 private:
  RecordBatchSource(std::shared_ptr<const RecordIndex> index, Dataset dataset,
                    ExampleDecoder decoder, const BatchOptions& options, const Clock& clock);
  absl::StatusOr<std::shared_ptr<const Batch>> Make(Step step, int r, const Cancel& cancel);
  absl::Status Fill(Step step, const std::vector<int64_t>& records, const Cancel& cancel,
                    Batch* batch);
  absl::Status ReadExample(int64_t record, absl::Span<std::byte* const> out, std::string* bytes,
                           ExampleDecoder::Scratch* scratch);
  absl::Status CheckArguments(Step step, int r) const;
  EpochOrder OrderOf(int64_t epoch) const;

  const std::shared_ptr<const RecordIndex> index_;
  const Dataset dataset_;
  const ExampleDecoder decoder_;
  const BatchOptions options_;
  const Clock& clock_;
  int64_t steps_per_epoch_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<int64_t> field_bytes_;    // of one example
  std::vector<int64_t> field_offsets_;  // in a batch's memory
  mutable std::mutex order_mu_;
  mutable std::map<int64_t, EpochOrder> orders_;  // of the epochs asked for last
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<ExampleCache> cache_;  // may be null
  std::unique_ptr<WorkAhead> ahead_;     // last: its threads use all the others
};

}  // namespace everstep
