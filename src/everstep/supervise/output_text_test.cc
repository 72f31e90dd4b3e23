// supervise: rules of what is made of lines.
#include "everstep/supervise/output_text.h"

#include <gtest/gtest.h>

namespace everstep {
namespace {

std::string Shown(std::string_view line) { return MakePrintable(line).text; }

TEST(MakePrintable, LeavesTextAsItIs) {
  EXPECT_EQ(Shown("loss 0.3\tepoch 2"), "loss 0.3\tepoch 2");
  EXPECT_EQ(Shown("Größe 5 µm, 漢字, 🙂"), "Größe 5 µm, 漢字, 🙂");
  EXPECT_EQ(Shown(""), "");
}

TEST(MakePrintable, OfALineDrawnOverTheLastFormIsLeft) {
  EXPECT_EQ(Shown("10%\r20%\r30%"), "30%");
  EXPECT_EQ(Shown("windows\r"), "windows");
  EXPECT_EQ(Shown("1/9\b\b\b2/9"), "2/9");
  EXPECT_EQ(Shown("ü\b\b\bok"), "ok");
}

TEST(MakePrintable, LeavesOutEscapeSequences) {
  EXPECT_EQ(Shown("\x1b[1;31merror\x1b[0m: no"), "error: no");
  EXPECT_EQ(Shown("\x1b]0;a title\x07text"), "text");
  EXPECT_EQ(Shown("\x1b]8;;http://x\x1b\\link"), "link");
  EXPECT_EQ(Shown("\x1b(Bplain\x1b"
                  "c"),
            "plain");
  EXPECT_EQ(Shown("cut \x1b["), "cut ");
  EXPECT_EQ(Shown("cut \x1b"), "cut ");
}

TEST(MakePrintable, NoControlByteIsLeftAndWhatIsNoUtf8IsMarked) {
  EXPECT_EQ(Shown(std::string_view("a\0b\x07\x7f", 5)), "a?b??");
  EXPECT_EQ(Shown("\x9b"
                  "31m \xc2\x9b"
                  "31m"),
            "?31m ??31m")
      << "control characters of eight bits";
  EXPECT_EQ(Shown("\xff\xfe \xc3 \xed\xa0\x80 \xc0\x80"), "?? ? ??? ??");
  std::string every;
  for (int i = 0; i < 70000; ++i) every += static_cast<char>((i * 2654435761u) >> 13);
  for (char c : Shown(every)) {
    EXPECT_TRUE((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) || c == '\t') << int{c};
  }
}

TEST(MakePrintable, TellsWhatIsNoText) {
  EXPECT_TRUE(MakePrintable(std::string(100, '\x01')).binary);
  EXPECT_FALSE(MakePrintable("caf\xe9 au lait, in Latin-1").binary);
  EXPECT_FALSE(MakePrintable("\x01\x02").binary) << "too little to say";
}

TEST(IsLibraryChatter, KnowsWhatTheLibrariesWrite) {
  EXPECT_TRUE(IsLibraryChatter("I0000 00:00:1730000000.123456    1234 chttp2_transport.cc:1] x"));
  EXPECT_TRUE(IsLibraryChatter("D1130 22:00:00.123456789    4242 config.cc:197] gRPC EXPERIMENT"));
  EXPECT_TRUE(
      IsLibraryChatter("2026-11-30 22:00:00.123456: I tensorflow/core/util/port.cc:153] x"));
  EXPECT_TRUE(IsLibraryChatter("node7:1234:1290 [0] NCCL INFO Bootstrap : Using eth0"));
}

TEST(IsLibraryChatter, WarningsAndErrorsAreNone) {
  EXPECT_FALSE(IsLibraryChatter("W0000 00:00:1730000000.123456    1234 a.cc:1] x"));
  EXPECT_FALSE(IsLibraryChatter("E1130 22:00:00.123456789    4242 server.cc:1] address in use"));
  EXPECT_FALSE(IsLibraryChatter("2026-11-30 22:00:00.123456: E tensorflow/core/a.cc:1] failed"));
  EXPECT_FALSE(IsLibraryChatter("node7:1234:1290 [0] NCCL WARN socket failed"));
}

TEST(IsLibraryChatter, TheUsersLinesAreNone) {
  for (const char* line : {"", "I", "Info 2026", "In 2026-11-30", "epoch 1 [0] of NCCL INFO",
                           "2026-11-30 22:00:00.123456: In the beginning", "D1", "NCCL INFO x",
                           "Traceback (most recent call last):"}) {
    EXPECT_FALSE(IsLibraryChatter(line)) << line;
  }
}

}  // namespace
}  // namespace everstep
