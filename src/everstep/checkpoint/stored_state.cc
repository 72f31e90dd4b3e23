// checkpoint: reading.
#include "everstep/checkpoint/stored_state.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/io/bytes.h"

namespace everstep {

const char kDigestKey[] = "everstep/digest";

namespace {

constexpr char kObjectGraphKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";
constexpr int64_t kDigestBytes = 16;

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
  for (const BundleEntry& entry : stored->bundle_->entries()) {
    if (entry.name == kDigestKey) {
      if (entry.size != kDigestBytes) {
        return absl::DataLossError(absl::StrCat(prefix, ".index: the stored digest has ",
                                                entry.size, " bytes, expected ", kDigestBytes));
      }
      std::string bytes(kDigestBytes, '\0');
      EV_RETURN_IF_ERROR(stored->bundle_->Read(entry, AsWritableBytes(&bytes)));
      stored->stored_digest_ = BytesToDigest(bytes);
    } else if (entry.name != kObjectGraphKey) {
      stored->tensors_.push_back(entry);
    }
  }
  return stored;
}

absl::StatusOr<std::string> StoredState::ComputeDigest() const {
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

absl::Status StoredState::Verify() const {
  if (stored_digest_.empty()) return bundle_->Verify();
  EV_ASSIGN_OR_RETURN(const std::string digest, ComputeDigest());
  return Compare(digest);
}

absl::Status StoredState::CheckFits(absl::Span<const TensorSpan> state) const {
  auto misfit = [this](const std::string& name, const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(
        bundle_->prefix(), ": not a checkpoint of this model: tensor \"", name, "\" ", why));
  };
  for (const TensorSpan& tensor : state) {
    const BundleEntry* entry = bundle_->Find(tensor.name);
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

absl::Status StoredState::Restore(absl::Span<const TensorSpan> state) const {
  EV_RETURN_IF_ERROR(CheckFits(state));
  for (const TensorSpan& tensor : state) {
    EV_RETURN_IF_ERROR(bundle_->Read(*bundle_->Find(tensor.name),
                                     {tensor.data, static_cast<size_t>(tensor.num_bytes())}));
  }
  return Compare(FullDigest(state));
}

}  // namespace everstep
