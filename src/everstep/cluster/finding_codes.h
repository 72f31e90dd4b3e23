// cluster: the codes of findings, each with its severity, cause and cure. docs/config-codes.md is
// this table for people. EV1xx: JSON and its shape; EV2xx: addresses; EV3xx: roles and the task;
// EV4xx: what is around; EV5xx: resolvers, which have none here.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace everstep {

struct FindingCode {
  std::string_view code;   // "EV101"
  bool error;              // else a warning
  std::string_view title;  // a few words
  std::string_view cause;  // one or two sentences
  std::string_view cure;
};

absl::Span<const FindingCode> FindingCodes();  // sorted by code

// Null when there is no such code.
const FindingCode* FindCode(std::string_view code);

// Its section of docs/config-codes.md.
std::string SectionOf(const FindingCode& code);

}  // namespace everstep
