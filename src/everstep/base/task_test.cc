// base: rules of Task and ClusterSpec.
#include "everstep/base/task.h"

#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

TEST(Task, ParsesWhatItPrints) {
  Task task{"chief", 12};
  auto parsed = Task::Parse(task.ToString());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, task);
}

TEST(Task, RefusesWhatIsNotTypeColonIndex) {
  for (const char* text : {"", "worker", "worker:", ":1", "worker:-1", "worker:1x", "worker: 1",
                           "worker:99999999999"}) {
    EXPECT_FALSE(Task::Parse(text).ok()) << text;
  }
}

TEST(ClusterSpec, NamesTheRangeWhenTheIndexIsOutside) {
  ClusterSpec cluster;
  cluster.jobs["worker"] = {"a:1", "b:1", "c:1"};
  EXPECT_EQ(*cluster.Address({"worker", 2}), "c:1");
  EXPECT_EQ(cluster.Address({"worker", 3}).status().message(),
            "index 3 but worker has 3 tasks (0-2)");
  EXPECT_FALSE(cluster.Address({"ps", 0}).ok());
  EXPECT_EQ(cluster.NumTasks("worker"), 3);
  EXPECT_EQ(cluster.NumTasks("ps"), 0);
}

TEST(ExitCode, FollowsTheCanonicalCodeUnlessOneIsSet) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("x")), kExitBadData);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("x")), kExitConfiguration);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("x")), kExitOurFault);
  absl::Status usage = WithExitCode(absl::InvalidArgumentError("x"), kExitUsage);
  EXPECT_EQ(ExitCodeFor(usage), kExitUsage);
  EXPECT_EQ(ExitCodeFor(Annotate(usage, "while reading")), kExitUsage);
}

}  // namespace
}  // namespace everstep
