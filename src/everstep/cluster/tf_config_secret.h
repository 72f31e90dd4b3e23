// cluster: what must not be printed: texts that look like a password or a key.
#pragma once

#include <string>
#include <string_view>

namespace everstep {

// A password in an address (user:password@), token=, password= and the like, a bearer token, a key
// of a well-known form.
bool HoldsCredentials(std::string_view text);

// That, or a long run of letters and digits, as keys are written.
bool LooksLikeSecret(std::string_view text);

// A key under which people write secrets: "password", "api_token".
bool IsNameOfSecret(std::string_view key);

// "host:port", or an IP address: letters, digits and . - _ : [ ] alone, and no word in it that
// looks like a secret. A host without a port is none: a password may look like it.
bool IsPlainAddress(std::string_view text);

// Made of words of TF_CONFIG alone, which everybody may see: "cluster", "rpc_layer".
bool IsKnownWord(std::string_view text);

// That, or what people call a secret: "api_token".
bool IsKnownName(std::string_view key);

// For messages: in single quotes, one line of ASCII, cut when long. Only a plain address, a number,
// a known word, or what is too short for a secret; any other text is '...', or "(not shown: it
// looks like a secret)" when it does.
std::string Shown(std::string_view text);

}  // namespace everstep
