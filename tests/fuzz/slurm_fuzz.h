// tests: the fuzz target of Slurm's texts, as libFuzzer calls it, and what its driver asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Reads the bytes as a host list and as tasks per node. Ends the process when a reader breaks its
// contract. Always 0. One thread.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace everstep::fuzz {

// Whether it was taken.
bool TrySlurmHosts(std::string_view text);
bool TrySlurmTasks(std::string_view text);

}  // namespace everstep::fuzz
