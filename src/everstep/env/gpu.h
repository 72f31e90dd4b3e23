// env: the GPUs of this host.
#pragma once

#include <string>

namespace everstep {

// How many NVIDIA GPUs the driver shows here; 0 without one. The arguments are for tests.
int CountGpus(const std::string& driver = "/proc/driver/nvidia/gpus",
              const std::string& devices = "/dev");

}  // namespace everstep
