// trust: rules of the job secret and of proofs.
#include "everstep/trust/secret.h"

#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <type_traits>

namespace everstep {
namespace {

template <typename T, typename = void>
struct CanBeStreamed : std::false_type {};
template <typename T>
struct CanBeStreamed<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<T>())>>
    : std::true_type {};

static_assert(CanBeStreamed<int>::value, "the check itself works");
static_assert(!CanBeStreamed<JobSecret>::value, "a secret must not be printable");
static_assert(!std::is_convertible_v<JobSecret, std::string>);

std::string HexOf(const MacTag& tag) {
  std::string text;
  char two[3];
  for (uint8_t byte : tag) {
    snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

JobSecret SecretOf(const std::string& hex) { return JobSecret::FromHex(hex).value(); }

TEST(Secret, GoesToAFileAndBack) {
  const JobSecret secret = JobSecret::Generate();
  const std::string text = secret.ToHexForFile();
  EXPECT_EQ(text.size(), 65u);
  EXPECT_EQ(text.back(), '\n');
  absl::StatusOr<JobSecret> again = JobSecret::FromHex(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(*again == secret);
}

TEST(Secret, TwoAreNeverEqual) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(JobSecret::Generate().ToHexForFile());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_TRUE(JobSecret::Generate() != JobSecret::Generate());
  EXPECT_NE(MakeNonce(), MakeNonce());
}

TEST(Secret, DamagedTextIsRefusedAndNotRepeated) {
  const std::string good(64, 'a');
  for (const std::string& bad :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(63, 'a') + "g",
        " " + std::string(63, 'a'), std::string(64, 'a') + "\nmore"}) {
    const absl::Status status = JobSecret::FromHex(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(status.message().find("aaaa"), absl::string_view::npos);
  }
  EXPECT_TRUE(JobSecret::FromHex(good + "\r\n").ok());
}

// RFC 4231 gives HMAC-SHA256 for keys of other lengths; HMAC pads a key with zeros to the block, so
// its test case 2 (key "Jefe") is the same MAC as with "Jefe" followed by 28 zero bytes.
TEST(Mac, IsHmacSha256) {
  const JobSecret jefe = SecretOf("4a656665" + std::string(56, '0'));
  EXPECT_EQ(HexOf(Mac(jefe, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Mac, EveryInputOfAProofMatters) {
  const JobSecret a = SecretOf(std::string(64, '1'));
  const JobSecret b = SecretOf(std::string(64, '2'));
  Nonce n1{}, n2{};
  n2[31] = 1;
  const MacTag base = Prove(a, "door", Side::kDialer, n1, n2, "claims");
  EXPECT_TRUE(EqualInConstantTime(base, Prove(a, "door", Side::kDialer, n1, n2, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(b, "door", Side::kDialer, n1, n2, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(a, "other", Side::kDialer, n1, n2, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(a, "door", Side::kListener, n1, n2, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(a, "door", Side::kDialer, n2, n1, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(a, "door", Side::kDialer, n1, n1, "claims")));
  EXPECT_FALSE(EqualInConstantTime(base, Prove(a, "door", Side::kDialer, n1, n2, "claim")));
}

TEST(Mac, ConstantTimeCompareComparesAllBytesAndLengths) {
  EXPECT_TRUE(EqualInConstantTime(std::string_view("abc"), std::string_view("abc")));
  EXPECT_FALSE(EqualInConstantTime(std::string_view("abc"), std::string_view("abd")));
  EXPECT_FALSE(EqualInConstantTime(std::string_view("abc"), std::string_view("ab")));
  EXPECT_TRUE(EqualInConstantTime(std::string_view(), std::string_view()));
}

TEST(Mac, PublicNamesDifferByPurposeAndSecret) {
  const JobSecret a = SecretOf(std::string(64, '1'));
  const JobSecret b = SecretOf(std::string(64, '2'));
  EXPECT_EQ(PublicNameOf(a, "x").size(), 32u);
  EXPECT_NE(PublicNameOf(a, "x"), PublicNameOf(a, "y"));
  EXPECT_NE(PublicNameOf(a, "x"), PublicNameOf(b, "x"));
}

}  // namespace
}  // namespace everstep
