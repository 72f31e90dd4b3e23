// learner: what every translation unit with torch includes, precompiled. ATen and autograd only:
// torch/torch.h takes three times as long.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
