// env: tests of counting GPUs.
#include "everstep/env/gpu.h"

#include <gtest/gtest.h>

#include "everstep/env/file.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

TEST(CountGpus, CountsWhatTheDriverLists) {
  TempDirectory temp;
  FileSystem& fs = RealFileSystem();
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:81:00.0"}) {
    ASSERT_TRUE(fs.CreateDirectories(temp.path() + "/gpus/" + gpu).ok());
  }
  EXPECT_EQ(CountGpus(temp.path() + "/gpus", temp.path()), 3);
}

TEST(CountGpus, WithoutTheDriversListCountsTheDevicesThatAreGpus) {
  TempDirectory temp;
  for (const char* device : {"nvidia0", "nvidia7", "nvidiactl", "nvidia-uvm", "null", "nvidia"}) {
    ASSERT_TRUE(RealFileSystem().CreateDirectories(temp.path() + "/" + device).ok());
  }
  EXPECT_EQ(CountGpus(temp.path() + "/none", temp.path()), 2);
  EXPECT_EQ(CountGpus(temp.path() + "/none", temp.path() + "/none"), 0);
}

}  // namespace
}  // namespace everstep
