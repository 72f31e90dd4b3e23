// collective: the pure parts: the plan, tree sums, frames, handshakes, layouts.
#include <gtest/gtest.h>

#include "everstep/collective/frame.h"
#include "everstep/collective/handshake.h"
#include "everstep/collective/plan.h"
#include "everstep/collective/test_world.h"
#include "everstep/collective/tree_sum.h"
#include "everstep/collective/vote_codec.h"

namespace everstep {
namespace {

std::vector<std::vector<bool>> AllShare(int members) {
  return std::vector<std::vector<bool>>(members, std::vector<bool>(members, true));
}

TEST(Plan, SlicesPartitionEveryBucketOnAlignedBounds) {
  for (int members = 1; members <= 9; ++members) {
    const View view = ViewOf(std::vector<std::string>(members, "a"), 16);
    const ReductionPlan plan(view, 0, AllShare(members));
    for (int64_t size : {0, 1, 15, 16, 1023, 1025, 5000, 100003}) {
      for (int bucket = 0; bucket < 5; ++bucket) {
        std::vector<int> covered(size, 0);
        for (int owner = 0; owner < members; ++owner) {
          const SliceRange s = plan.SliceOf(size, bucket, owner);
          ASSERT_GE(s.size, 0);
          ASSERT_TRUE(s.size == 0 || s.begin % ReductionPlan::kSliceAlignment == 0);
          for (int64_t i = s.begin; i < s.begin + s.size; ++i) ++covered[i];
        }
        for (int c : covered) ASSERT_EQ(c, 1);
      }
    }
  }
}

TEST(Plan, GroupsAreRunsOfEqualHostsThatAllShare) {
  const View view = ViewOf({"a", "a", "b", "b", "b", "a"}, 12);
  ReductionPlan plan(view, 3, AllShare(6));
  ASSERT_EQ(plan.groups().size(), 3u);
  EXPECT_EQ(plan.own_group().first, 2);
  EXPECT_EQ(plan.own_group().last, 5);
  EXPECT_TRUE(plan.InOwnGroup(4));
  EXPECT_FALSE(plan.InOwnGroup(5));

  auto shares = AllShare(6);
  shares[4][2] = false;  // one side could not map the other
  plan = ReductionPlan(view, 3, shares);
  ASSERT_EQ(plan.groups().size(), 4u);
  EXPECT_EQ(plan.groups()[1].size(), 1);  // rank 2 alone
  EXPECT_EQ(plan.own_group().first, 3);
}

TEST(Plan, EachGroupHasOneDelegatePerOwnerSpreadOverItsMembers) {
  const View view = ViewOf({"a", "a", "b", "b", "c"}, 8);
  const ReductionPlan plan(view, 0, AllShare(5));
  for (int owner = 0; owner < 5; ++owner) {
    for (int g = 0; g < 3; ++g) {
      const int delegate = plan.DelegateOf(owner, g);
      EXPECT_EQ(plan.group_of(delegate), g);
      EXPECT_TRUE(plan.group_of(owner) != g || delegate == owner);
    }
  }
  EXPECT_NE(plan.DelegateOf(0, 1), plan.DelegateOf(1, 1));
}

TEST(TreeSum, ANodeInsideTheTreeIsSummedByItsOwnShape) {
  SetFloatEnvironment();
  // [4, 7) of R = 7 splits into [4, 6) and [6, 7).
  TreeSum sum({4, 7}, {{4, 5}, {5, 6}, {6, 7}});
  std::vector<std::vector<float>> leaves(3, std::vector<float>(TreeSum::kPieceFloats));
  std::vector<float> out(TreeSum::kPieceFloats);
  for (int r = 0; r < 3; ++r) {
    for (size_t i = 0; i < out.size(); ++i) leaves[r][i] = Leaf(3, 0, r, static_cast<int64_t>(i));
  }
  const float* inputs[] = {leaves[0].data(), leaves[1].data(), leaves[2].data()};
  sum.Run(inputs, TreeSum::kPieceFloats, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const float want = Defined(0, 3, [&](int r) { return leaves[r][i]; });
    ASSERT_EQ(BitsOf(out[i]), BitsOf(want)) << i;
  }
}

TEST(Frame, GoesToBytesAndBackAndDamageIsNoticed) {
  Frame frame;
  frame.kind = FrameKind::kResult;
  frame.view = {3, -7};
  frame.round = int64_t{1} << 40;
  frame.bucket = 77;
  frame.owner = -1;
  frame.node = 9;
  frame.offset = int64_t{1} << 33;
  frame.bytes = 131072;
  FrameHeader header = EncodeFrame(frame);
  const Frame back = DecodeFrame(header).value();
  EXPECT_EQ(back.kind, frame.kind);
  EXPECT_EQ(back.view, frame.view);
  EXPECT_EQ(back.round, frame.round);
  EXPECT_EQ(back.bucket, frame.bucket);
  EXPECT_EQ(back.owner, frame.owner);
  EXPECT_EQ(back.node, frame.node);
  EXPECT_EQ(back.offset, frame.offset);
  EXPECT_EQ(back.bytes, frame.bytes);
  for (size_t bit = 0; bit < 8 * header.size(); ++bit) {
    header[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodeFrame(header).ok()) << "bit " << bit;
    header[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Frame, ChecksumIsCrc32c) {
  const char text[] = "123456789";
  EXPECT_EQ(HeaderChecksum({reinterpret_cast<const std::byte*>(text), 9}), 0xe3069283u);
}

TEST(Frame, LengthsAndKindsOutOfBoundsAreRefused) {
  Frame frame;
  frame.bytes = kMaxFrameBytes + 1;
  EXPECT_FALSE(DecodeFrame(EncodeFrame(frame)).ok());
  frame.bytes = 0;
  frame.kind = static_cast<FrameKind>(9);
  EXPECT_FALSE(DecodeFrame(EncodeFrame(frame)).ok());
  EXPECT_FALSE(DecodeFrame({}).ok());
}

TEST(Handshake, ProofsHoldForTheirNoncesSecretAndFieldsOnly) {
  const JobSecret secret = JobSecret::Generate();
  const Nonces nonces = {MakeNonce(), MakeNonce()};
  const Claim claim = {{1, 2}, 3, 4, 5, 6};
  ClaimBytes bytes = EncodeClaim(secret, nonces, claim);
  Claim back;
  ASSERT_TRUE(DecodeClaim(secret, nonces, bytes, back));
  EXPECT_EQ(back.view, claim.view);
  EXPECT_EQ(back.from_rank, 3);
  EXPECT_EQ(back.to_rank, 4);
  EXPECT_EQ(back.from, 5u);
  EXPECT_EQ(back.to, 6u);
  EXPECT_FALSE(DecodeClaim(JobSecret::Generate(), nonces, bytes, back));
  EXPECT_FALSE(DecodeClaim(secret, {nonces.dialer, MakeNonce()}, bytes, back)) << "a replay";
  const AnswerBytes answer = EncodeAnswer(secret, nonces, bytes, true, {1, 2});
  ViewId newest;
  EXPECT_EQ(DecodeAnswer(secret, nonces, bytes, answer, newest), AnswerKind::kWelcome);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{1};
    EXPECT_FALSE(DecodeClaim(secret, nonces, bytes, back)) << i;
    EXPECT_EQ(DecodeAnswer(secret, nonces, bytes, answer, newest), AnswerKind::kStranger) << i;
    bytes[i] ^= std::byte{1};
  }
}

TEST(Votes, GoToBytesAndBack) {
  const VoteRecord record = RecordOf(7, Vote{8, {9, 10}, kWishCheckpoint, 11}, 12);
  const VoteRecord back = DecodeVote(EncodeVote(record));
  EXPECT_EQ(back.round, 7);
  EXPECT_EQ(back.step, 8);
  EXPECT_EQ(back.prepared_term, 9);
  EXPECT_EQ(back.prepared_id, 10);
  EXPECT_EQ(back.wishes, kWishCheckpoint);
  EXPECT_EQ(back.digest, 11u);
  EXPECT_EQ(back.buckets, 12u);
}

TEST(Cells, WordsRiseWithRoundsAndBucketsAndLeaveRoomForTheVote) {
  uint64_t last = 0;
  for (Round round : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 40}) {
    for (int bucket : {0, 1, kMaxBuckets - 1, kVoteBucket}) {
      const uint64_t word = WordOf(round, bucket);
      EXPECT_GT(word, last);
      EXPECT_EQ(RoundOf(word), round);
      EXPECT_EQ(BucketOf(word), bucket);
      last = word;
    }
  }
}

TEST(Layout, ShapesThatCannotBeAreRefusedAndOthersHaveTheirOwnFingerprint) {
  EXPECT_FALSE(ArenaLayout::Make({{1, -1}, 1}).ok());
  EXPECT_FALSE(ArenaLayout::Make({{1}, 0}).ok());
  const auto a = ArenaLayout::Make({{10, 20}, 2}).value();
  EXPECT_EQ(a->offset_of(1), 10);
  EXPECT_EQ(a->floats(), 30);
  EXPECT_NE(a->fingerprint(), ArenaLayout::Make({{20, 10}, 2}).value()->fingerprint());
  EXPECT_NE(a->fingerprint(), ArenaLayout::Make({{10, 20}, 3}).value()->fingerprint());
  EXPECT_NE(a->fingerprint(), ArenaLayout::Make({{10, 20, 0}, 2}).value()->fingerprint());
}

}  // namespace
}  // namespace everstep
