// launch: the version.
#include "everstep/launch/version.h"

namespace everstep {

const char kVersion[] = EVERSTEP_VERSION;

}  // namespace everstep
