// launch: the version of this build, which all processes of a job must have.
#pragma once

namespace everstep {

extern const char kVersion[];

}  // namespace everstep
