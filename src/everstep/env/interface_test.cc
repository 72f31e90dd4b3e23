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

TEST(ListInterfaces, HasTheLoopbackWithItsAddress) {
  bool found = false;
  for (const NetworkInterface& one : ListInterfaces()) {
    EXPECT_FALSE(one.name.empty());
    EXPECT_FALSE(one.address.empty()) << one.name;
    const bool loopback = one.address == "::1" || one.address.rfind("127.", 0) == 0;
    EXPECT_TRUE(!loopback || one.loopback) << one.address;
    if (one.address == "127.0.0.1") found = one.name == "lo" && one.up;
  }
  EXPECT_TRUE(found);
}

TEST(ListInterfaces, AgreesWithInterfaceOf) {
  for (const NetworkInterface& one : ListInterfaces()) {
    if (one.address.find('%') == std::string::npos) {
      EXPECT_EQ(InterfaceOf(one.address), one.name) << one.address;
    } else {
      EXPECT_EQ(one.address.substr(one.address.find('%') + 1), one.name);
    }
  }
}

}  // namespace
}  // namespace everstep
