// checkpoint: whatever is done to the files, Restore gives the exact state of the newest checkpoint
// that nothing was done to (or of a newer one that it did not hurt), or refuses when there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

constexpr int kRuns = 2000;
constexpr char kDirectory[] = "/c";

// A directory of checkpoints, and what was done to each.
class Victim {
 public:
  explicit Victim(uint64_t seed) : key_(HashKey({seed, 99})) {
    const int count = 3 + Below(2);
    for (int i = 1; i <= count; ++i) {
      const CheckpointId id = {i * 10, 0, {1, 1}};
      const int writers = 1 + Below(4);
      TrainState state(id.step);
      DirectoryStore store(fs_, {kDirectory, 0, 0, ""});
      for (int k = 0; k < writers; ++k) {
        EXPECT_TRUE(store.SaveShard(id, state.tensors(), {k, writers}).ok());
      }
      EXPECT_TRUE(store.Commit(id, state.tensors(), writers).ok());
      all_.push_back({store.PathOf(id), id.step, false});
    }
  }

  void DamageOnce() {
    Checkpoint& one = all_[Below(static_cast<int>(all_.size()))];
    Checkpoint& other = all_[Below(static_cast<int>(all_.size()))];
    const int what = Below(static_cast<int>(std::size(kKinds)));
    (this->*kKinds[what])(one, other);
  }

  // The newest that nothing was done to; -1 for none.
  Step Unhurt() const {
    Step newest = -1;
    for (const Checkpoint& one : all_) {
      if (!one.hurt) newest = std::max(newest, one.step);
    }
    return newest;
  }
  Step Newest() const { return all_.back().step; }
  FileSystem& fs() { return fs_; }
  int Below(int n) { return static_cast<int>(RandomAt(key_, k_++) % static_cast<uint64_t>(n)); }

 private:
  struct Checkpoint {
    std::string path;
    Step step;
    bool hurt;
  };
  using Kind = void (Victim::*)(Checkpoint&, Checkpoint&);

  // One of its files; empty when it has none left.
  std::string AnyFile(const Checkpoint& one) {
    const auto names = fs_.List(one.path);
    if (!names.ok() || names->empty()) return "";
    return JoinPath(one.path, (*names)[Below(static_cast<int>(names->size()))]);
  }
  std::string Get(const std::string& path) {
    const auto bytes = ReadWholeFile(fs_, path);
    return bytes.ok() ? *bytes : "";
  }
  void Put(const std::string& path, const std::string& bytes) {
    auto file = fs_.OpenForWriting(path, FileSystem::Create::kTruncate, 0644);
    if (file.ok()) (void)(*file)->Append(std::string_view(bytes));
  }
  void Edit(Checkpoint& one, const std::function<void(std::string*)>& edit) {
    const std::string path = AnyFile(one);
    if (path.empty()) return;
    std::string bytes = Get(path);
    edit(&bytes);
    Put(path, bytes);
    one.hurt = true;
  }

  void FlipABit(Checkpoint& one, Checkpoint&) {
    Edit(one, [this](std::string* bytes) {
      if (bytes->empty()) return;
      char& byte = (*bytes)[Below(static_cast<int>(bytes->size()))];
      byte = static_cast<char>(byte ^ (1 << Below(8)));
    });
  }
  void Truncate(Checkpoint& one, Checkpoint&) {
    Edit(one, [this](std::string* b) { b->resize(Below(static_cast<int>(b->size()) + 1)); });
  }
  void Extend(Checkpoint& one, Checkpoint&) {
    Edit(one,
         [this](std::string* b) { b->append(1 + Below(5000), static_cast<char>(Below(256))); });
  }
  void Empty(Checkpoint& one, Checkpoint&) {
    Edit(one, [](std::string* bytes) { bytes->clear(); });
  }
  void ZeroAPage(Checkpoint& one, Checkpoint&) {
    Edit(one, [this](std::string* bytes) {
      const size_t page = 4096 * Below(1 + static_cast<int>(bytes->size() / 4096));
      const size_t end = std::min(page + 4096, bytes->size());
      std::fill(bytes->begin() + static_cast<int64_t>(page),
                bytes->begin() + static_cast<int64_t>(end), '\0');
    });
  }
  void DeleteAFile(Checkpoint& one, Checkpoint&) {
    const std::string path = AnyFile(one);
    if (path.empty()) return;
    (void)fs_.Remove(path);
    one.hurt = true;
  }
  void DeleteAll(Checkpoint& one, Checkpoint&) {
    (void)fs_.RemoveTree(one.path);
    one.hurt = true;
  }
  void RenameAFile(Checkpoint& one, Checkpoint&) {
    const std::string path = AnyFile(one);
    if (path.empty()) return;
    (void)fs_.Rename(path, Below(2) == 0 ? path + "x" : JoinPath(one.path, "state.index"));
    one.hurt = true;
  }
  void SwapFiles(const std::string& a, const std::string& b) {
    if (a.empty() || b.empty()) return;
    const std::string bytes_of_a = Get(a), bytes_of_b = Get(b);
    Put(a, bytes_of_b);
    Put(b, bytes_of_a);
  }
  void SwapShards(Checkpoint& one, Checkpoint&) {
    SwapFiles(AnyFile(one), AnyFile(one));
    one.hurt = true;
  }
  void SwapBetween(Checkpoint& one, Checkpoint& other) {
    SwapFiles(AnyFile(one), AnyFile(other));
    one.hurt = other.hurt = true;
  }
  void TakeTheIndexOf(Checkpoint& one, Checkpoint& other) {
    if (&one == &other) return;
    Put(JoinPath(one.path, "state.index"), Get(JoinPath(other.path, "state.index")));
    one.hurt = true;
  }
  void TakeAFileOf(Checkpoint& one, Checkpoint& other) {
    const std::string from = AnyFile(other), to = AnyFile(one);
    if (&one == &other || from.empty() || to.empty()) return;
    Put(to, Get(from));
    one.hurt = true;
  }
  // Does not hurt: what is in it still is.
  void RenameTheDirectory(Checkpoint& one, Checkpoint&) {
    const std::string to = Below(2) == 0 ? "/c/some " + std::to_string(Below(1000))
                                         : "/c/step-" + std::to_string(Below(100)) + "-h" +
                                               std::to_string(Below(3)) + "-v1.1";
    if (!fs_.Exists(to) && fs_.Rename(one.path, to).ok()) one.path = to;
  }
  void SwapDirectories(Checkpoint& one, Checkpoint& other) {
    if (!fs_.Exists(one.path) || !fs_.Exists(other.path) || &one == &other) return;
    EXPECT_TRUE(fs_.Rename(one.path, "/c/aside").ok());
    EXPECT_TRUE(fs_.Rename(other.path, one.path).ok());
    EXPECT_TRUE(fs_.Rename("/c/aside", other.path).ok());
    std::swap(one.path, other.path);
  }

  static constexpr Kind kKinds[] = {&Victim::FlipABit,
                                    &Victim::Truncate,
                                    &Victim::Extend,
                                    &Victim::Empty,
                                    &Victim::ZeroAPage,
                                    &Victim::DeleteAFile,
                                    &Victim::DeleteAll,
                                    &Victim::RenameAFile,
                                    &Victim::SwapShards,
                                    &Victim::SwapBetween,
                                    &Victim::TakeAFileOf,
                                    &Victim::TakeTheIndexOf,
                                    &Victim::RenameTheDirectory,
                                    &Victim::SwapDirectories};

  MemoryFileSystem fs_;
  const uint64_t key_;
  uint64_t k_ = 0;
  std::vector<Checkpoint> all_;
};

TEST(Damage, TheNewestUnhurtOneIsRestoredExactlyOrAllAreHurt) {
  log::Init(log::Level::kOff, "");
  int newest = 0, fell_back = 0, refused = 0;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    Victim victim(seed);
    const int damages = 1 + victim.Below(7);
    for (int i = 0; i < damages; ++i) victim.DamageOnce();
    TrainState got(-1);
    DirectoryStore store(victim.fs(), {kDirectory, 0, 0, ""});
    const auto restored = store.Restore(got.tensors());
    if (!restored.ok()) {
      ASSERT_EQ(victim.Unhurt(), -1) << "run " << seed << ": " << restored.status();
      // Nothing found at all only when nothing is left of any.
      ASSERT_TRUE(absl::IsDataLoss(restored.status()) ||
                  (absl::IsNotFound(restored.status()) && got == TrainState(-1)))
          << "run " << seed << ": " << restored.status();
      ++refused;
      continue;
    }
    ASSERT_GE(restored->id.step, victim.Unhurt()) << "run " << seed;
    ASSERT_TRUE(got == TrainState(restored->id.step)) << "run " << seed;
    for (const RejectedCheckpoint& one : restored->rejected) {
      ASSERT_FALSE(one.why.ok()) << "run " << seed;
    }
    (restored->id.step == victim.Newest() ? newest : fell_back) += 1;
  }
  // The test tests something.
  EXPECT_GT(newest, 200);
  EXPECT_GT(fell_back, 500);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace everstep
