// learner: numbers as text that reads back to the same number.
#pragma once

#include <charconv>
#include <string>

namespace everstep {

// The shortest decimal that is exactly `x`: 0.001 for 0.001, and never equal for unequal numbers.
inline std::string ExactText(double x) {
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
}

}  // namespace everstep
