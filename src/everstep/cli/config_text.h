// cli: a TF_CONFIG as people keep it in files, and the places in it that they are shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everstep/cluster/finding.h"

namespace everstep {

struct ConfigText {
  std::string all;         // as it was read
  std::string value;       // the JSON in it
  std::vector<size_t> at;  // where in `all` each byte of `value` stands, and its end
  std::string note;        // that it was taken out of something, for people; else empty
};

// All of it is the JSON.
ConfigText PlainConfig(std::string all);

// The text alone, or the value of the last line "TF_CONFIG=..." or "export TF_CONFIG=...", quoted
// as for a shell (over several lines, too) or not at all. Takes any text.
ConfigText UnwrapConfig(std::string all);

// Lines and columns in `value` become those in `all`.
void MovePlaces(const ConfigText& text, std::vector<Finding>* findings);

// The line of a finding that was moved, or what is around it, with a caret below: two lines. Only
// what cannot be a secret is shown: plain addresses, small numbers and the words of TF_CONFIG; any
// other string or word is "...". Empty where there is no place, where the line looks as if it held
// a secret, and where the text is not JSON and has anything that would be "...".
std::string Excerpt(const ConfigText& text, const Finding& finding);

// Whether something in it looks like a secret; rather once too often.
bool MayHoldSecret(const std::string& text);

}  // namespace everstep
