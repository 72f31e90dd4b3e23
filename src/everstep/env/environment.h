// env: environment variables, host name, processor features, random bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace everstep {

std::optional<std::string> GetEnvironment(const std::string& name);  // unset and empty differ
void SetEnvironment(const std::string& name, const std::string& value);
void UnsetEnvironment(const std::string& name);

std::string HostName();

// Equal for processes that can share memory and abstract sockets: same boot, same network
// namespace.
std::string HostIdentity();

uint64_t RandomBits64();  // from the kernel; for names and secrets, never for training

// "avx512", "avx2" or "default": the widest vectors this processor has, in the words of
// --cpu-baseline and ATEN_CPU_CAPABILITY.
std::string ProcessorCapability();

// The processors this process may run on: bit i % 64 of word i / 64 is processor i.
std::array<uint64_t, 16> AllowedProcessors();

// The absolute path of the running program.
std::string ProgramPath();
// What this process was started with: the program as it was called, and its arguments.
std::vector<std::string> CommandLine();

}  // namespace everstep
