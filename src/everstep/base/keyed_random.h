// base: random numbers as pure functions of a key. Nothing of a job is drawn from a stateful
// source: what a step needs is computed from (seed, purpose, step, replica, ...), on any machine,
// in any order.
//
// Mixing is SplitMix64's finalizer (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014).
#pragma once

#include <cstdint>
#include <initializer_list>

namespace everstep {

// A bijection on 64-bit words that spreads every input bit over all output bits.
uint64_t Mix64(uint64_t x);

// One key from many: order matters, and {a, b} differs from {a, b, 0}.
uint64_t HashKey(std::initializer_list<uint64_t> parts);

// The k-th number of the stream named by `key`.
inline uint64_t RandomAt(uint64_t key, uint64_t k) {
  return Mix64(key + (k + 1) * 0x9e3779b97f4a7c15ull);
}

// Purposes keep streams apart that would else share (seed, step, ...).
enum class RandomPurpose : uint64_t {
  kInitializer = 1,
  kReplica = 2,
  kBlockOrder = 3,
  kWindowOrder = 4,
  kRecordMap = 5
};

// A permutation of [0, n) computed pointwise in O(1), with no table: a four-round Feistel network
// over the smallest even number of bits that covers n, walked in cycles until it lands below n.
class KeyedPermutation {
 public:
  KeyedPermutation(uint64_t key, uint64_t n);  // n may be 0; then At must not be called
  uint64_t At(uint64_t i) const;               // i < n; the image, also < n

 private:
  uint64_t Encrypt(uint64_t x) const;
  uint64_t key_, n_;
  int half_bits_;
};

}  // namespace everstep
