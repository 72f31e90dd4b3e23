// launch: rules of the hints.
#include "everstep/launch/hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace everstep {
namespace {

using ::testing::HasSubstr;

TEST(HintOnFailure, KnowsTheLastWordsThatHaveACure) {
  EXPECT_THAT(HintOnFailure("}) with an unsupported type (<class "
                            "'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.\n"),
              HasSubstr("TF_USE_LEGACY_KERAS=1"));
  EXPECT_EQ(HintOnFailure("ValueError: an unsupported type\n"), "");
  EXPECT_THAT(HintOnFailure("x\nModuleNotFoundError: No module named 'everstep_heartbeat'\n"),
              HasSubstr("everstep python-path"));
  EXPECT_EQ(HintOnFailure(""), "");
}

}  // namespace
}  // namespace everstep
