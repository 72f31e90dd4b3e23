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

// For messages: in single quotes, one line of ASCII, cut when long; "(not shown: it looks like a
// secret)" when it does.
std::string Shown(std::string_view text);

}  // namespace everstep
