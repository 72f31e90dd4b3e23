// cluster: tests of the choice of this host's address.
#include "everstep/cluster/interfaces.h"

#include "everstep/cluster/resolver_test_util.h"

namespace everstep {
namespace {

const std::vector<NetworkInterface> kHost = {
    {"lo", "127.0.0.1", true, true},
    {"docker0", "172.17.0.1", true, false},
    {"eth0", "10.0.0.2", true, false},
    {"eth1", "10.1.0.2", true, false},
    {"eth10", "10.10.0.2", false, false},
    {"ib0", "169.254.3.4", true, false},
    {"lo", "::1", true, true},
    {"eth0", "fd00::2", true, false},
    {"eth1", "fe80::2%eth1", true, false},
    {"ib0", "fd00:1::2", true, false},
};

std::string Choose(Variables variables, const std::vector<NetworkInterface>& host = kHost) {
  const auto chosen = ChooseAddress(ReaderOf(std::move(variables)), host);
  if (!chosen.ok()) return std::string(chosen.status().message());
  if (!chosen->has_value()) return "nothing";
  return (*chosen)->interface + " " + (*chosen)->address;
}
std::string ByName(const std::string& pattern, const std::string& family = "") {
  return Choose({{"EVERSTEP_SOCKET_IFNAME", pattern}, {"EVERSTEP_SOCKET_FAMILY", family}});
}

bool Matches(const std::string& pattern, const std::string& name) {
  const auto parsed = InterfacePattern::Parse(pattern, "V");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->Matches(name);
}

TEST(InterfacePattern, NamesAreBeginnings) {
  EXPECT_TRUE(Matches("eth", "eth0"));
  EXPECT_TRUE(Matches("eth1", "eth10"));
  EXPECT_TRUE(Matches("ib,eth", "eth0"));
  EXPECT_TRUE(Matches("ib,,eth", "eth0"));
  EXPECT_FALSE(Matches("eth", "veth0"));
  EXPECT_FALSE(Matches("eth10", "eth1"));
}

TEST(InterfacePattern, AnEqualsSignMakesTheWholeListExact) {
  EXPECT_TRUE(Matches("=eth0,eth1", "eth1"));
  EXPECT_FALSE(Matches("=eth0,eth1", "eth10"));
  EXPECT_FALSE(Matches("=eth", "eth0"));
}

TEST(InterfacePattern, ACaretTakesAllOthers) {
  EXPECT_FALSE(Matches("^docker,lo", "docker0"));
  EXPECT_FALSE(Matches("^docker,lo", "lo"));
  EXPECT_TRUE(Matches("^docker,lo", "eth0"));
  EXPECT_FALSE(Matches("^=eth1", "eth1"));
  EXPECT_TRUE(Matches("^=eth1", "eth10"));
}

TEST(InterfacePattern, WhatIsNoPatternIsRefused) {
  for (const char* pattern : {"eth0,=eth1", "=^eth0", "eth0,^lo", "==eth0", "^^lo"}) {
    const auto parsed = InterfacePattern::Parse(pattern, "V");
    ASSERT_FALSE(parsed.ok()) << pattern;
    EXPECT_THAT(std::string(parsed.status().message()),
                testing::AllOf(testing::StartsWith("EV540: V: '"),
                               testing::HasSubstr("stand once, in this order")));
  }
  for (const char* pattern : {"^", "=", "^=", ",", "^,"}) {
    ExpectRefusal(InterfacePattern::Parse(pattern, "V"),
                  std::string("EV540: V: '") + pattern +
                      "' names no interface; write e.g. eth0, or unset it");
  }
  for (const char* name : {"eth0 eth1", "eth0:1", "an-interface-name"}) {
    ExpectRefusal(InterfacePattern::Parse(name, "V"),
                  std::string("EV540: V: '") + name +
                      "' is not the name of an interface, nor how one begins; list names as `ip "
                      "link` shows them, with commas and no blanks");
  }
}

TEST(ChooseAddress, WithoutAPatternNothingIsChosen) {
  EXPECT_EQ(Choose({}), "nothing");
  EXPECT_EQ(Choose({{"EVERSTEP_SOCKET_FAMILY", "AF_INET6"}}), "nothing");
  EXPECT_EQ(Choose({{"EVERSTEP_SOCKET_IFNAME", ""}, {"NCCL_SOCKET_IFNAME", " "}}), "nothing");
}

TEST(ChooseAddress, OursGoesBeforeNccls) {
  EXPECT_EQ(Choose({{"NCCL_SOCKET_IFNAME", "eth1"}}), "eth1 10.1.0.2");
  EXPECT_EQ(Choose({{"NCCL_SOCKET_IFNAME", "eth1"}, {"EVERSTEP_SOCKET_IFNAME", "eth0"}}),
            "eth0 10.0.0.2");
  EXPECT_EQ(Choose({{"NCCL_SOCKET_IFNAME", "eth0"}, {"NCCL_SOCKET_FAMILY", "AF_INET6"}}),
            "eth0 fd00::2");
  EXPECT_EQ(Choose({{"NCCL_SOCKET_IFNAME", "eth0"},
                    {"NCCL_SOCKET_FAMILY", "AF_INET6"},
                    {"EVERSTEP_SOCKET_FAMILY", "AF_INET"}}),
            "eth0 10.0.0.2");
}

TEST(ChooseAddress, TheKernelsOrderDecidesNotThePatterns) {
  EXPECT_EQ(ByName("eth1,eth0"), "eth0 10.0.0.2");
}

TEST(ChooseAddress, Ipv4GoesFirstUnlessToldOtherwise) {
  EXPECT_EQ(ByName("ib,eth"), "eth0 10.0.0.2");
  EXPECT_EQ(ByName("ib"), "ib0 fd00:1::2");
  EXPECT_EQ(ByName("ib", "AF_INET"), "ib0 169.254.3.4");
  EXPECT_EQ(ByName("eth", "AF_INET6"), "eth0 fd00::2");
  EXPECT_EQ(ByName("eth", "AF_INET"), "eth0 10.0.0.2");
}

TEST(ChooseAddress, DockerAndTheLoopbackAreTakenWhenThereIsNothingElse) {
  EXPECT_EQ(ByName("^eth1"), "eth0 10.0.0.2");
  EXPECT_EQ(ByName("^eth,ib"), "docker0 172.17.0.1");
  EXPECT_EQ(ByName("^eth,ib,docker"), "lo 127.0.0.1");
  EXPECT_EQ(ByName("^eth,ib,docker", "AF_INET6"), "lo ::1");
  EXPECT_EQ(ByName("lo"), "lo 127.0.0.1");
  EXPECT_EQ(ByName("=docker0"), "docker0 172.17.0.1");
}

TEST(ChooseAddress, WhatMatchesNothingIsAnErrorThatListsWhatThereIs) {
  std::vector<NetworkInterface> host(kHost.begin() + 4, kHost.end());
  const std::string there =
      " other hosts can use matches 'eth1'; there is: eth10 10.10.0.2 (down), ib0 169.254.3.4, lo "
      "::1, eth0 fd00::2, eth1 fe80::2%eth1 (of its link alone), ib0 "
      "fd00:1::2; "
      "name one of these, or unset ";
  EXPECT_EQ(Choose({{"NCCL_SOCKET_IFNAME", "eth1"}}, host),
            "EV541: NCCL_SOCKET_IFNAME: no interface that is up with an address" + there +
                "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(
      Choose({{"EVERSTEP_SOCKET_IFNAME", "eth1"}, {"EVERSTEP_SOCKET_FAMILY", "AF_INET"}}, host),
      "EV541: EVERSTEP_SOCKET_IFNAME: no interface that is up with an IPv4 address" + there +
          "EVERSTEP_SOCKET_IFNAME");
  EXPECT_EQ(
      Choose({{"EVERSTEP_SOCKET_IFNAME", "eth"}}, {}),
      "EV541: EVERSTEP_SOCKET_IFNAME: no interface that is up with an address other hosts can "
      "use matches 'eth'; there is: none; name one of these, or unset EVERSTEP_SOCKET_IFNAME");
}

TEST(ChooseAddress, AFamilyThatIsNoneIsRefused) {
  ExpectRefusal(ChooseAddress(ReaderOf({{"NCCL_SOCKET_FAMILY", "IPv6"}}), kHost),
                "EV542: NCCL_SOCKET_FAMILY: 'IPv6' is no family; set it to AF_INET or AF_INET6, or "
                "unset NCCL_SOCKET_FAMILY");
}

}  // namespace
}  // namespace everstep
