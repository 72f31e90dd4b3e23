// data: IDX files, the format of MNIST and its kin: a magic number with type and rank, dimensions,
// then the values, all big-endian; often gzip-compressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

// An IDX file of unsigned bytes.
struct IdxArray {
  std::vector<int64_t> shape;  // shape[0] examples
  std::string values;          // row-major

  int64_t examples() const { return shape[0]; }
  int64_t example_bytes() const;
};

// Reads `path`, gzip or plain. kNotFound, or kDataLoss naming the file, what was found and what was
// expected; kUnimplemented for values that are not unsigned bytes.
absl::StatusOr<IdxArray> ReadIdx(FileSystem& fs, const std::string& path);

// Writes one tf.train.Example for each image with its label, {image: bytes, label: int64}, to the
// TFRecord file `output`, which is there whole or not at all. Returns how many. kInvalidArgument
// when the two files do not belong together.
absl::StatusOr<int64_t> ImportIdx(FileSystem& fs, const std::string& images,
                                  const std::string& labels, const std::string& output);

}  // namespace everstep
