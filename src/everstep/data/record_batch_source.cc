// data: batches from records.
#include "everstep/data/record_batch_source.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kCancelEvery = 64;  // records
constexpr size_t kFetchAhead = 6;    // records

uint64_t HashText(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

uint64_t FingerprintOf(const RecordIndex& index, const Dataset& dataset,
                       const BatchOptions& options) {
  std::string fields;
  for (const FeatureSpec& field : dataset.fields())
    absl::StrAppend(&fields, field.ToString(), "\n");
  const ShuffleOptions& shuffle = dataset.shuffle();
  return HashKey(
      {index.fingerprint(), HashText(fields), HashText(dataset.map_identity()), shuffle.shuffle,
       static_cast<uint64_t>(shuffle.block_records), static_cast<uint64_t>(shuffle.window_blocks),
       static_cast<uint64_t>(options.global_batch), static_cast<uint64_t>(options.num_replicas),
       options.seed, static_cast<uint64_t>(options.tail)});
}

absl::Status CheckOptions(const BatchOptions& options, const Dataset& dataset, int64_t records) {
  if (options.global_batch < 1 || options.num_replicas < 1) {
    return absl::InvalidArgumentError(absl::StrCat("global batch ", options.global_batch, " over ",
                                                   options.num_replicas,
                                                   " replicas: both must be at least 1"));
  }
  if (records == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.paths()[0], ": the data set has no records"));
  }
  if (options.tail == TailPolicy::kDrop && records < options.global_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.paths()[0], ": ", records, " records do not fill one global batch of ",
                     options.global_batch, "; make it smaller or keep the tail"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordBatchSource>> RecordBatchSource::Open(
    FileSystem& fs, const Clock& clock, const Dataset& dataset, const BatchOptions& options) {
  EV_ASSIGN_OR_RETURN(ExampleDecoder decoder, ExampleDecoder::Make(dataset.fields()));
  EV_ASSIGN_OR_RETURN(std::shared_ptr<const RecordIndex> index,
                      RecordIndex::Open(fs, dataset.paths()));
  EV_RETURN_IF_ERROR(CheckOptions(options, dataset, index->size()));
  return std::unique_ptr<RecordBatchSource>(
      new RecordBatchSource(std::move(index), dataset, std::move(decoder), options, clock));
}

RecordBatchSource::RecordBatchSource(std::shared_ptr<const RecordIndex> index, Dataset dataset,
                                     ExampleDecoder decoder, const BatchOptions& options,
                                     const Clock& clock)
    : index_(std::move(index)),
      dataset_(std::move(dataset)),
      decoder_(std::move(decoder)),
      options_(options),
      clock_(clock) {
  const int64_t n = index_->size(), batch = options_.global_batch;
  steps_per_epoch_ = options_.tail == TailPolicy::kDrop ? n / batch : (n - 1) / batch + 1;
  fingerprint_ = FingerprintOf(*index_, dataset_, options_);

  const int64_t largest_share = (std::min(batch, n) - 1) / options_.num_replicas + 1;
  int64_t total = 0;
  for (const FeatureSpec& field : decoder_.fields()) {
    field_bytes_.push_back(field.num_bytes());
    field_offsets_.push_back(total);
    total += (largest_share * field.num_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  pool_ = std::make_unique<BufferPool>(static_cast<size_t>(std::max(total, kAlignment)),
                                       static_cast<size_t>(options_.prefetch + 2));
  if (dataset_.cache()) cache_ = ExampleCache::Make(n, field_bytes_, options_.cache_bytes);
  ahead_ = std::make_unique<WorkAhead>(
      options_.threads, options_.prefetch, clock_,
      [this](Step step, int r, const Cancel& cancel) { return Make(step, r, cancel); });
}

int64_t RecordBatchSource::GlobalExamples(Step step) const {
  const int64_t begin = step % steps_per_epoch_ * options_.global_batch;
  return std::min(options_.global_batch, index_->size() - begin);
}

std::vector<int64_t> RecordBatchSource::RecordsOf(Step step, int r) const {
  const int64_t begin = step % steps_per_epoch_ * options_.global_batch;
  const Share share = ShareOf(GlobalExamples(step), r, options_.num_replicas);
  EpochOrder order = OrderOf(step / steps_per_epoch_);
  std::vector<int64_t> records(static_cast<size_t>(share.end - share.begin));
  for (size_t i = 0; i < records.size(); ++i) {
    records[i] = order.RecordAt(begin + share.begin + static_cast<int64_t>(i));
  }
  return records;
}

EpochOrder RecordBatchSource::OrderOf(int64_t epoch) const {
  constexpr size_t kMostOrders = 3;  // this epoch, the next one by work ahead, one to spare
  std::lock_guard<std::mutex> lock(order_mu_);
  const auto known = orders_.find(epoch);
  if (known != orders_.end()) return known->second;
  if (orders_.size() >= kMostOrders) orders_.clear();
  return orders_.try_emplace(epoch, options_.seed, epoch, index_->size(), dataset_.shuffle())
      .first->second;
}

absl::Status RecordBatchSource::CheckArguments(Step step, int r) const {
  if (step >= 0 && r >= 0 && r < options_.num_replicas) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("no batch of step ", step, ", replica ", r, " of ", options_.num_replicas));
}

absl::StatusOr<std::shared_ptr<const Batch>> RecordBatchSource::Get(Step step, int r,
                                                                    const Cancel& cancel,
                                                                    Deadline deadline) {
  EV_RETURN_IF_ERROR(CheckArguments(step, r));
  std::optional<WorkAhead::Result> ready = ahead_->Take(step, r, cancel, deadline);
  if (ready.has_value()) return *std::move(ready);
  if (clock_.Now() >= deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("no time left to read the data of step ", step, ", replica ", r));
  }
  return Make(step, r, cancel);
}

void RecordBatchSource::Expect(StepRange steps, int replica_begin, int replica_end) {
  steps.begin = std::max<Step>(steps.begin, 0);
  ahead_->Expect(steps, std::max(replica_begin, 0), std::min(replica_end, options_.num_replicas));
}

absl::StatusOr<std::shared_ptr<const Batch>> RecordBatchSource::Make(Step step, int r,
                                                                     const Cancel& cancel) {
  const std::vector<int64_t> records = RecordsOf(step, r);
  const std::shared_ptr<std::byte> memory = pool_->Take();
  auto batch = std::make_shared<Batch>();
  batch->examples = static_cast<int64_t>(records.size());
  batch->global_examples = GlobalExamples(step);
  batch->memory = memory;
  for (size_t f = 0; f < field_bytes_.size(); ++f) {
    const FeatureSpec& spec = decoder_.fields()[f];
    TensorSpan field{spec.name, spec.dtype, {batch->examples}, memory.get() + field_offsets_[f]};
    field.shape.insert(field.shape.end(), spec.shape.begin(), spec.shape.end());
    batch->fields.push_back(std::move(field));
  }
  EV_RETURN_IF_ERROR(Fill(step, records, cancel, batch.get()));
  return std::shared_ptr<const Batch>(std::move(batch));
}

absl::Status RecordBatchSource::Fill(Step step, const std::vector<int64_t>& records,
                                     const Cancel& cancel, Batch* batch) {
  std::string bytes;
  ExampleDecoder::Scratch scratch;
  std::vector<std::byte*> out(field_bytes_.size());
  std::vector<TensorSpan> example;  // for the map function only
  if (dataset_.map()) {
    example = batch->fields;
    for (TensorSpan& field : example) field.shape.erase(field.shape.begin());
  }
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % kCancelEvery == 0 && cancel.IsSet()) {
      return absl::CancelledError("told to stop reading a batch");
    }
    for (size_t f = 0; f < out.size(); ++f) {
      out[f] = batch->fields[f].data + static_cast<int64_t>(i) * field_bytes_[f];
    }
    if (cache_ != nullptr && i + kFetchAhead < records.size()) {
      cache_->Prefetch(records[i + kFetchAhead]);
    }
    EV_RETURN_IF_ERROR(ReadExample(records[i], out, &bytes, &scratch));
    if (!dataset_.map()) continue;
    for (size_t f = 0; f < out.size(); ++f) example[f].data = out[f];
    const auto epoch = static_cast<uint64_t>(step / steps_per_epoch_);
    const uint64_t key = HashKey({options_.seed, static_cast<uint64_t>(RandomPurpose::kRecordMap),
                                  epoch, static_cast<uint64_t>(records[i])});
    const absl::Status status = dataset_.map()(key, example);
    if (!status.ok()) return Annotate(status, index_->Describe(records[i]));
  }
  return absl::OkStatus();
}

absl::Status RecordBatchSource::ReadExample(int64_t record, absl::Span<std::byte* const> out,
                                            std::string* bytes, ExampleDecoder::Scratch* scratch) {
  if (cache_ != nullptr && cache_->Get(record, out)) return absl::OkStatus();
  EV_ASSIGN_OR_RETURN(const std::string_view payload, index_->Read(record, bytes));
  const absl::Status status = decoder_.Decode(payload, out, scratch);
  if (!status.ok()) return Annotate(status, index_->Describe(record));
  if (cache_ != nullptr) cache_->Put(record, out);
  return absl::OkStatus();
}

}  // namespace everstep
