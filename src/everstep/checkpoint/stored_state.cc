// checkpoint: reading.
#include "everstep/checkpoint/stored_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/format.h"
#include "everstep/io/bytes.h"
#include "everstep/io/object_graph.h"

namespace everstep {

namespace {

constexpr int64_t kDigestBytes = kDigestDigits / 2;
constexpr char kSeedName[] = "seed";

std::string TypeName(int32_t dtype) {
  return IsKnownDType(dtype) ? NameOf(static_cast<DType>(dtype)) : absl::StrCat("type ", dtype);
}

// Strings count as their uint64 lengths and bytes, one after another.
absl::Status AddStrings(const BundleReader& bundle, const BundleEntry& entry,
                        DigestStream* stream) {
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> strings, bundle.ReadStrings(entry));
  std::string bytes;
  for (const std::string& text : strings) {
    AppendLittle<uint64_t>(&bytes, text.size());
    bytes += text;
  }
  stream->Begin(entry.name, entry.dtype, entry.shape, static_cast<int64_t>(bytes.size()));
  stream->Add(AsBytes(bytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredState>> StoredState::Open(FileSystem& fs,
                                                               const std::string& prefix) {
  std::unique_ptr<StoredState> stored(new StoredState);
  EV_ASSIGN_OR_RETURN(stored->bundle_, BundleReader::Open(fs, prefix));
  EV_RETURN_IF_ERROR(stored->ReadMeta());
  const bool version2 = stored->id_.has_value();
  for (const BundleEntry& entry : stored->bundle_->entries()) {
    EV_RETURN_IF_ERROR(stored->AddEntry(entry, version2));
  }
  // Keys have another order than names: "a-b/..." lies before "a/...".
  std::sort(stored->tensors_.begin(), stored->tensors_.end(),
            [](const BundleEntry& a, const BundleEntry& b) { return a.name < b.name; });
  return stored;
}

absl::Status StoredState::ReadMeta() {
  const std::string& prefix = bundle_->prefix();
  if (const BundleEntry* entry = bundle_->Find(kMetaKey)) {
    if (!entry->is_string() || !entry->shape.empty() || entry->sliced) {
      return absl::DataLossError(absl::StrCat(prefix, ".index: ", kMetaKey, " is not a string"));
    }
    EV_ASSIGN_OR_RETURN(const std::vector<std::string> text, bundle_->ReadStrings(*entry));
    EV_ASSIGN_OR_RETURN(const CheckpointMeta meta, CheckpointMeta::Parse(text[0], prefix));
    stored_digest_ = meta.digest;
    id_ = meta.id;
  } else if (const BundleEntry* digest = bundle_->Find(kDigestKey)) {
    if (digest->size != kDigestBytes || digest->is_string() || digest->sliced) {
      return absl::DataLossError(absl::StrCat(prefix, ".index: the stored digest has ",
                                              digest->size, " bytes, expected ", kDigestBytes));
    }
    std::string bytes(kDigestBytes, '\0');
    EV_RETURN_IF_ERROR(bundle_->Read(*digest, AsWritableBytes(&bytes)));
    stored_digest_ = BytesToDigest(bytes);
  }
  return absl::OkStatus();
}

absl::Status StoredState::AddEntry(const BundleEntry& entry, bool version2) {
  const bool is_graph = entry.name == kObjectGraphKey;
  if (!version2) {
    if (!is_graph && entry.name != kDigestKey) tensors_.push_back(entry);
    return absl::OkStatus();
  }
  if (is_graph || entry.name == kSaveCounterKey) {
    rest_.push_back(entry);
    return absl::OkStatus();
  }
  if (entry.name == kMetaKey) return absl::OkStatus();
  const std::optional<std::string> name = VariableName(entry.name);
  if (!name.has_value()) {
    return absl::DataLossError(absl::StrCat(bundle_->prefix(), ".index: \"", entry.name,
                                            "\" is no key of a checkpoint of this format"));
  }
  tensors_.push_back(entry);
  tensors_.back().name = *name;
  return absl::OkStatus();
}

const BundleEntry* StoredState::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const BundleEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

absl::StatusOr<int64_t> StoredState::ReadInt64(std::string_view name) const {
  const BundleEntry* entry = Find(name);
  if (entry == nullptr || entry->dtype != static_cast<int32_t>(DType::kInt64) || entry->sliced ||
      !entry->shape.empty()) {
    return absl::NotFoundError(
        absl::StrCat(bundle_->prefix(), ": has no int64 scalar \"", ToAbsl(name), "\""));
  }
  int64_t value = 0;
  EV_RETURN_IF_ERROR(bundle_->Read(*entry, {reinterpret_cast<std::byte*>(&value), sizeof value}));
  return value;
}

absl::StatusOr<std::string> StoredState::ComputeDigest() const {
  EV_RETURN_IF_ERROR(CheckRest());
  DigestStream stream(DigestStream::k128);
  for (const BundleEntry& entry : tensors_) {
    if (entry.sliced) {
      return absl::UnimplementedError(absl::StrCat(bundle_->prefix(), ": tensor \"", entry.name,
                                                   "\" is stored in slices: no digest"));
    }
    if (entry.is_string()) {
      EV_RETURN_IF_ERROR(AddStrings(*bundle_, entry, &stream));
      continue;
    }
    stream.Begin(entry.name, entry.dtype, entry.shape, entry.size);
    EV_RETURN_IF_ERROR(
        bundle_->Stream(entry, [&](absl::Span<const std::byte> piece) { stream.Add(piece); }));
  }
  return stream.Finish128();
}

absl::Status StoredState::Compare(const std::string& digest) const {
  if (stored_digest_.empty() || digest == stored_digest_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(bundle_->prefix(), ": the digest of the state is ",
                                          digest, ", the stored one is ", stored_digest_));
}

absl::Status StoredState::CheckRest() const {
  for (const BundleEntry& entry : rest_) {
    if (!entry.sliced) EV_RETURN_IF_ERROR(bundle_->Check(entry));
  }
  return absl::OkStatus();
}

absl::Status StoredState::Verify() const {
  if (stored_digest_.empty()) return bundle_->Verify();
  EV_ASSIGN_OR_RETURN(const std::string digest, ComputeDigest());
  return Compare(digest);
}

absl::Status StoredState::CheckTensors(absl::Span<const TensorSpan> state) const {
  auto misfit = [this](const std::string& name, const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(
        bundle_->prefix(), ": not a checkpoint of this model: tensor \"", name, "\" ", why));
  };
  for (const TensorSpan& tensor : state) {
    const BundleEntry* entry = Find(tensor.name);
    if (entry == nullptr) return misfit(tensor.name, "is not in it");
    if (entry->dtype != static_cast<int32_t>(tensor.dtype) || entry->sliced ||
        entry->shape != tensor.shape) {
      return misfit(tensor.name,
                    absl::StrCat("is ", TypeName(entry->dtype), ShapeToString(entry->shape),
                                 entry->sliced ? " in slices" : "", " there, ",
                                 NameOf(tensor.dtype), ShapeToString(tensor.shape), " here"));
    }
  }
  if (tensors_.size() == state.size()) return absl::OkStatus();
  for (const BundleEntry& entry : tensors_) {
    bool here = false;
    for (const TensorSpan& tensor : state) here = here || tensor.name == entry.name;
    if (!here) return misfit(entry.name, "is in it but not in the model");
  }
  return absl::InternalError("two tensors of the state have one name");
}

absl::Status StoredState::CheckFits(absl::Span<const TensorSpan> state) const {
  EV_RETURN_IF_ERROR(CheckTensors(state));
  for (const TensorSpan& tensor : state) {
    if (tensor.name != kSeedName || tensor.dtype != DType::kInt64 || !tensor.shape.empty()) {
      continue;
    }
    EV_ASSIGN_OR_RETURN(const int64_t seed, ReadInt64(kSeedName));
    const int64_t here = LoadLittle<int64_t>(tensor.data);
    if (seed != here) {
      return absl::FailedPreconditionError(
          absl::StrCat(bundle_->prefix(), ": not a checkpoint of this job: its seed is ", seed,
                       ", this job's is ", here));
    }
  }
  return absl::OkStatus();
}

absl::Status StoredState::Restore(absl::Span<const TensorSpan> state) const {
  EV_RETURN_IF_ERROR(CheckTensors(state));
  for (const TensorSpan& tensor : state) {
    EV_RETURN_IF_ERROR(
        bundle_->Read(*Find(tensor.name), {tensor.data, static_cast<size_t>(tensor.num_bytes())}));
  }
  EV_RETURN_IF_ERROR(CheckRest());
  return Compare(FullDigest(state));
}

}  // namespace everstep
