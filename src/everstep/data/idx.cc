// data: IDX files.
#include "everstep/data/idx.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/tensor_span.h"
#include "everstep/io/example.h"
#include "everstep/io/gzip.h"
#include "everstep/io/publish.h"
#include "everstep/io/tfrecord.h"

namespace everstep {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;

uint8_t ByteAt(const std::string& bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

uint32_t BigEndianAt(const std::string& bytes, size_t i) {
  return static_cast<uint32_t>(ByteAt(bytes, i)) << 24 | ByteAt(bytes, i + 1) << 16 |
         ByteAt(bytes, i + 2) << 8 | ByteAt(bytes, i + 3);
}

std::string Magic(uint32_t number) {
  return absl::StrCat("0x", absl::Hex(number, absl::kZeroPad8));
}

// The magic number that an array of this rank has.
std::string MagicOf(const IdxArray& array) {
  return Magic(static_cast<uint32_t>(kUnsignedByte << 8 | array.shape.size()));
}

}  // namespace

int64_t IdxArray::example_bytes() const {
  return NumElements(absl::MakeConstSpan(shape).subspan(1));
}

absl::StatusOr<IdxArray> ReadIdx(FileSystem& fs, const std::string& path) {
  EV_ASSIGN_OR_RETURN(std::string bytes, ReadMaybeGzip(fs, path));
  auto damaged = [&path](std::string_view what) {
    return absl::DataLossError(absl::StrCat(path, ": ", std::string(what)));
  };
  if (bytes.size() < 4) {
    return damaged(absl::StrCat("truncated IDX file: it has ", bytes.size(), " bytes"));
  }
  const uint32_t magic = BigEndianAt(bytes, 0);
  const int rank = ByteAt(bytes, 3);
  if (magic >> 16 != 0 || rank < 1) {
    return damaged(absl::StrCat("not an IDX file: its magic number is ", Magic(magic),
                                ", expected 0x000008NN, NN being the number of dimensions"));
  }
  if (ByteAt(bytes, 2) != kUnsignedByte) {
    return absl::UnimplementedError(absl::StrCat(path, ": its magic number is ", Magic(magic),
                                                 ", expected 0x000008NN: only unsigned bytes are "
                                                 "read"));
  }
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  if (bytes.size() < header) {
    return damaged(
        absl::StrCat("truncated IDX file: it ends inside its header of ", header, " bytes"));
  }
  IdxArray array;
  for (int i = 0; i < rank; ++i) array.shape.push_back(BigEndianAt(bytes, 4 + 4 * i));
  const int64_t want = NumElements(array.shape);
  if (want < 0 || static_cast<uint64_t>(want) != bytes.size() - header) {
    const bool longer = want >= 0 && static_cast<uint64_t>(want) < bytes.size() - header;
    return damaged(absl::StrCat(longer ? "IDX file with bytes left over" : "truncated IDX file",
                                ": shape ", ShapeToString(array.shape), " needs ", want,
                                " bytes of values, it has ", bytes.size() - header));
  }
  array.values = std::move(bytes);
  array.values.erase(0, header);
  return array;
}

absl::StatusOr<int64_t> ImportIdx(FileSystem& fs, const std::string& images,
                                  const std::string& labels, const std::string& output) {
  EV_ASSIGN_OR_RETURN(const IdxArray image, ReadIdx(fs, images));
  EV_ASSIGN_OR_RETURN(const IdxArray label, ReadIdx(fs, labels));
  if (image.shape.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(images, ": its magic number is ", MagicOf(image),
                                                   ", expected that of images, 0x00000803: are "
                                                   "these the labels?"));
  }
  if (label.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(labels, ": its magic number is ", MagicOf(label),
                                                   ", expected that of labels, 0x00000801"));
  }
  if (image.examples() != label.examples()) {
    return absl::InvalidArgumentError(absl::StrCat(images, " has ", image.examples(), " images, ",
                                                   labels, " has ", label.examples(),
                                                   " labels: do they belong together?"));
  }
  absl::StatusOr<std::unique_ptr<AtomicFile>> opened = AtomicFile::Open(fs, output);
  // The data may be good: it is where to write that must change.
  if (!opened.ok()) return WithExitCode(opened.status(), kExitConfiguration);
  const std::unique_ptr<AtomicFile> file = *std::move(opened);
  RecordWriter writer(&file->file());
  ExampleBuilder builder;
  const auto image_bytes = static_cast<size_t>(image.example_bytes());
  for (int64_t i = 0; i < image.examples(); ++i) {
    const auto value = static_cast<uint8_t>(label.values[static_cast<size_t>(i)]);
    builder.AddBytes("image", std::string_view(image.values).substr(i * image_bytes, image_bytes));
    builder.AddInt64s("label", {value});
    EV_RETURN_IF_ERROR(writer.Append(builder.Finish()));
  }
  EV_RETURN_IF_ERROR(writer.Flush());
  EV_RETURN_IF_ERROR(file->Publish());
  return writer.records();
}

}  // namespace everstep
