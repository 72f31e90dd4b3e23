// everstep: the public API. A program includes this header and links everstep::everstep.
//
//   int main() {
//     return everstep::RunWorker([](everstep::Worker& worker) -> absl::Status { ... });
//   }
#pragma once

#include "everstep/base/status.h"
#include "everstep/data/dataset.h"
#include "everstep/learner/layers.h"
#include "everstep/learner/losses.h"
#include "everstep/learner/metric.h"
#include "everstep/learner/optimizers.h"
#include "everstep/runtime/run_worker.h"
#include "everstep/train/sequential.h"
#include "everstep/train/strategy.h"
#include "everstep/train/worker.h"
