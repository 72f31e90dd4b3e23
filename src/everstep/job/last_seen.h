// job: where the tasks of a job were when its last run said so, for those who wait for them.
#pragma once

#include <map>
#include <string>

#include "everstep/env/file.h"

namespace everstep {

// By task, a text for people: "worker:3" to "on host b, as of 2026-01-02T03:04:05Z". From the
// job's status.json, so to be read before a new run writes that. Empty when it is not there or
// cannot be read: nothing depends on it.
std::map<std::string, std::string> LastSeenOf(FileSystem& fs, const std::string& job);

}  // namespace everstep
