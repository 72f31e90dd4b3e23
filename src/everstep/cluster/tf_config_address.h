// cluster: an address of a cluster, as TensorFlow's servers and gRPC take it.
#pragma once

#include <string>
#include <string_view>

namespace everstep {

struct AddressProblem {
  std::string_view code;  // empty: none
  std::string what, cure;
};

struct CheckedAddress {
  AddressProblem problem;
  // Without a problem:
  std::string host;      // without brackets
  std::string identity;  // the same for texts that mean the same address: "127.0.0.1:2222"
  bool loopback = false;
};

CheckedAddress CheckAddress(std::string_view text);

}  // namespace everstep
