// cluster: what must hold for the cluster and the task of a TF_CONFIG, and what is around it.
#pragma once

#include "everstep/cluster/tf_config.h"
#include "everstep/cluster/tf_config_shape.h"

namespace everstep {

// Addresses: EV202 to EV212.
void CheckAddresses(const TfConfigParts& parts, FindingList* findings);

// Roles and the task: EV113 to EV115, EV301, EV305, EV310 to EV320.
void CheckRoles(const TfConfigParts& parts, StrategyKind strategy, FindingList* findings);

// EV401.
void CheckProxies(const TfConfigParts& parts, const ExamineOptions& options, FindingList* findings);

// EV402, in all of the text.
void CheckSecrets(const JsonValue& top, FindingList* findings);

}  // namespace everstep
