// job: the table of a job's options, each with one way to read and one way to write it. Internal to
// the room.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/job/spec.h"

namespace everstep {

enum class FieldKind { kText, kNumber, kBool };  // in JSON

struct Field {
  JobOption option;
  FieldKind kind;
  bool fixed;  // for the life of a job; else each run may have another
  // The error's message says what it should be: "a whole number from 1 to 10".
  absl::Status (*read)(const std::string& text, JobSpec* spec);
  std::string (*write)(const JobSpec& spec);  // empty: not said
};

absl::Span<const Field> JobFields();

// Field::read, with an error that names `as_written`, the flag or variable that the text came from.
absl::Status ReadField(const Field& field, const std::string& text, const std::string& as_written,
                       JobSpec* spec);

// The flag as people write it: "-n".
std::string WrittenFlag(const JobOption& option);

}  // namespace everstep
