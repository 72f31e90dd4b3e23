// supervise: lines of processes, made fit for people.
#include "everstep/supervise/output_text.h"

#include <algorithm>
#include <cstddef>

namespace everstep {
namespace {

bool IsPlain(unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// How many bytes at the beginning of `text` are an escape sequence; one that does not end reaches
// to the end of `text`. `text` begins with ESC.
size_t EscapeLength(std::string_view text) {
  if (text.size() < 2) return text.size();
  size_t at = 2;
  switch (text[1]) {
    case '[':  // parameters and intermediates, then one byte that ends it
      while (at < text.size() && text[at] >= 0x20 && text[at] < 0x40) ++at;
      return std::min(at + 1, text.size());
    case ']':  // a window's title and the like: ends by BEL or ESC backslash
    case 'P':
    case '_':
    case '^':
      for (; at < text.size(); ++at) {
        if (text[at] == '\a') return at + 1;
        if (text[at] == '\x1b') return std::min(at + 2, text.size());
      }
      return at;
    default:
      at = 1;
      while (at < text.size() && text[at] >= 0x20 && text[at] < 0x30) ++at;
      return std::min(at + 1, text.size());
  }
}

// The length of the character of several bytes that `text` begins with; 0 when it is none that a
// terminal may get: malformed, overlong, a surrogate, or a control character (U+0080 to U+009F).
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first >= 0xf0 && first < 0xf5   ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xc2 && byte(1) < 0xa0) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

void RemoveLastCharacter(std::string* text) {
  while (!text->empty() && (static_cast<unsigned char>(text->back()) & 0xc0) == 0x80) {
    text->pop_back();
  }
  if (!text->empty()) text->pop_back();
}

// Whether `text` has the form of `pattern`, in which 0 is any digit, at its beginning.
bool HasForm(std::string_view text, std::string_view pattern) {
  if (text.size() < pattern.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '0' ? !IsDigit(text[i]) : text[i] != pattern[i]) return false;
  }
  return true;
}

}  // namespace

std::string_view LastForm(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const size_t drawn = line.rfind('\r'); drawn != std::string_view::npos) {
    line.remove_prefix(drawn + 1);
  }
  return line;
}

PrintableLine MakePrintable(std::string_view line) {
  line = LastForm(line);
  const auto is_plain = [](char c) { return IsPlain(static_cast<unsigned char>(c)); };
  const auto odd = std::find_if_not(line.begin(), line.end(), is_plain);
  PrintableLine result{std::string(line.substr(0, odd - line.begin()))};
  size_t replaced = 0;
  for (size_t at = result.text.size(); at < line.size();) {
    const std::string_view rest = line.substr(at);
    if (rest[0] == '\x1b') {
      at += EscapeLength(rest);
    } else if (rest[0] == '\b') {
      RemoveLastCharacter(&result.text);
      ++at;
    } else {
      const size_t length = is_plain(rest[0]) ? 1 : CharacterLength(rest);
      if (length == 0) ++replaced;
      result.text += length == 0 ? std::string_view("?") : rest.substr(0, length);
      at += std::max<size_t>(length, 1);
    }
  }
  result.binary = replaced > 8 && replaced * 4 > line.size();
  return result;
}

bool IsLibraryChatter(std::string_view line) {
  // I0000 00:00:1730000000.123456    1234 file.cc:12] and D1130 22:00:00.123456789    1234
  // file.cc:12]
  const std::string_view stamped = line.substr(std::min<size_t>(line.size(), 1));
  if (!line.empty() && (line[0] == 'I' || line[0] == 'D' || line[0] == 'V') &&
      HasForm(stamped, "0000 00:00:00")) {
    return true;
  }
  // 2026-11-30 22:00:00.123456: I tensorflow/core/...
  if (HasForm(line, "0000-00-00 00:00:00.000000: ")) {
    line.remove_prefix(28);
    return line.substr(0, 2) == "I " || line.substr(0, 2) == "D ";
  }
  // host:1234:1256 [0] NCCL INFO Bootstrap ...
  const size_t nccl = line.find(" NCCL ");
  if (nccl == std::string_view::npos || nccl == 0 || line[nccl - 1] != ']') return false;
  const std::string_view level = line.substr(nccl + 6);
  return HasForm(level, "INFO ") || HasForm(level, "TRACE ") || HasForm(level, "CALL ");
}

}  // namespace everstep
