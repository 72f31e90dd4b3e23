// tests: the fuzz target of TF_CONFIG, as libFuzzer calls it, and what its drivers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Examines these bytes as a TF_CONFIG. Ends the process when a promise is broken. Always 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace everstep::fuzz {

// In the seeds it follows "=token=" only; no message may have it then.
inline constexpr std::string_view kSecret = "hunter2";

// What LLVMFuzzerTestOneInput does; whether the text was taken.
bool TryTfConfig(std::string_view text);

// TF_CONFIGs, right and wrong ones, some with secrets.
std::vector<std::string> TfConfigSeeds();

// The n-th mutation of the seeds.
std::string MutateTfConfig(const std::vector<std::string>& seeds, uint64_t n);

}  // namespace everstep::fuzz
