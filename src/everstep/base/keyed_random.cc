// base: keyed random numbers and permutations.
#include "everstep/base/keyed_random.h"

namespace everstep {

uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t HashKey(std::initializer_list<uint64_t> parts) {
  uint64_t h = 0x6576657273746570ull;
  for (uint64_t part : parts) h = Mix64(h + 0x9e3779b97f4a7c15ull + Mix64(part));
  return Mix64(h ^ parts.size());
}

KeyedPermutation::KeyedPermutation(uint64_t key, uint64_t n) : key_(key), n_(n), half_bits_(1) {
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
}

uint64_t KeyedPermutation::Encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t next = left ^ (Mix64(key_ + Mix64(right * 4 + round)) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

uint64_t KeyedPermutation::At(uint64_t i) const {
  uint64_t x = Encrypt(i);
  while (x >= n_) x = Encrypt(x);  // fewer than 4 turns on average: the domain is below 4n
  return x;
}

}  // namespace everstep
