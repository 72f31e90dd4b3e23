// env: tests of the interfaces of this host.
#include "everstep/env/interface.h"

#include <gtest/gtest.h>

namespace everstep {
namespace {

TEST(InterfaceOf, ALoopbackAddressIsTheLoopbacks) {
  EXPECT_EQ(InterfaceOf("127.0.0.1"), "lo");
  EXPECT_EQ(InterfaceOf("127.3.2.1"), "lo");
  EXPECT_EQ(InterfaceOf("::1"), "lo");
  EXPECT_EQ(InterfaceOf("localhost"), "lo");
}

TEST(InterfaceOf, WhatIsNotOursHasNone) {
  EXPECT_EQ(InterfaceOf("192.0.2.1"), "");  // for documents only
  EXPECT_EQ(InterfaceOf("2001:db8::1"), "");
  EXPECT_EQ(InterfaceOf("a-name"), "");
  EXPECT_EQ(InterfaceOf(""), "");
}

}  // namespace
}  // namespace everstep
