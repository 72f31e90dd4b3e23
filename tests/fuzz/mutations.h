// tests: wrong bundle indices made from right ones, as functions of a number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "table_bytes.h"

namespace everstep::fuzz {

// Indices that our writer or TensorFlow wrote, all of which fit DataFile().
std::vector<std::string> Seeds();

// An index that is made to hurt, and whether the reader takes it all the same.
struct Bomb {
  std::string name;
  std::string index;
  bool is_taken;
};
std::vector<Bomb> Bombs();

// The n-th mutation of the seeds. Half of those that change bytes have right checksums again; those
// that change entries always have.
std::string Mutate(const std::vector<std::string>& seeds, uint64_t n);

}  // namespace everstep::fuzz
