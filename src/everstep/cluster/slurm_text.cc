// cluster: Slurm's texts.
#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/slurm.h"

namespace everstep {
namespace {

constexpr char kHostCure[] = "write it as `scontrol show hostlist` does, e.g. n[01-03,07],login";
constexpr char kTasksCure[] = "write it as Slurm does, e.g. 2(x3),1";
constexpr size_t kMaxDigits = 18;  // of a number in brackets; fits uint64_t

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSeparator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n'; }
bool IsOfName(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

// Reads left to right; errors say at which byte, from 1.
class Reader {
 public:
  Reader(std::string_view text, std::string_view where, std::string_view code,
         std::string_view cure)
      : text_(text), where_(where), code_(code), cure_(cure) {}

  bool AtEnd() const { return at_ == text_.size(); }
  char Next() const { return AtEnd() ? '\0' : text_[at_]; }
  size_t at() const { return at_; }
  void Skip() { ++at_; }
  bool SkipIf(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  template <typename Predicate>
  std::string_view SkipWhile(Predicate predicate) {
    const size_t begin = at_;
    while (!AtEnd() && predicate(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  absl::Status Bad(const std::string& what) const { return BadAt(at_, what); }
  absl::Status BadAt(size_t at, const std::string& what) const {
    return Refuse(code_, absl::StrCat(ToAbsl(where_), " (byte ", at + 1, ")"), what, cure_);
  }
  absl::Status Unexpected(const std::string& expected) const {
    if (AtEnd()) return Bad("ends where " + expected + " is expected");
    return Bad(Quoted(text_.substr(at_, 1)) + " where " + expected + " is expected");
  }

 private:
  std::string_view text_, where_, code_, cure_;
  size_t at_ = 0;
};

// One word of the list: text, group, text, group, ..., text. A group is the numbers it stands for.
struct Word {
  std::vector<std::string> texts{std::string()};
  std::vector<std::vector<std::string>> groups;
  size_t hosts = 1;
  size_t longest = 0;  // of a name, in bytes
};

std::string Padded(uint64_t number, size_t width) {
  const std::string digits = absl::StrCat(number);
  return digits.size() >= width ? digits : std::string(width - digits.size(), '0') + digits;
}

absl::Status ReadNumber(Reader& reader, std::string_view* digits, uint64_t* number) {
  const size_t at = reader.at();
  *digits = reader.SkipWhile(IsDigit);
  if (digits->empty()) return reader.Unexpected("a number");
  if (digits->size() > kMaxDigits || !absl::SimpleAtoi(ToAbsl(*digits), number)) {
    return reader.BadAt(
        at, absl::StrCat("a number of ", digits->size(), " digits; ", kMaxDigits, " are the most"));
  }
  return absl::OkStatus();
}

// "01-03", after which come ',' or ']'. The width is that of the first number, as in Slurm.
absl::Status ReadRange(Reader& reader, std::vector<std::string>* group) {
  const size_t at = reader.at();
  std::string_view first, last;
  uint64_t low = 0, high = 0;
  EV_RETURN_IF_ERROR(ReadNumber(reader, &first, &low));
  high = low;
  if (reader.SkipIf('-')) EV_RETURN_IF_ERROR(ReadNumber(reader, &last, &high));
  if (high < low) return reader.BadAt(at, "the range falls");
  if (high - low >= kMaxSlurmHosts - group->size()) {
    return reader.BadAt(at, absl::StrCat("more than ", kMaxSlurmHosts, " hosts"));
  }
  for (uint64_t n = low; n <= high; ++n) group->push_back(Padded(n, first.size()));
  return absl::OkStatus();
}

absl::Status ReadGroup(Reader& reader, Word* word) {
  std::vector<std::string>& group = word->groups.emplace_back();
  do {
    EV_RETURN_IF_ERROR(ReadRange(reader, &group));
  } while (reader.SkipIf(','));
  if (!reader.SkipIf(']')) return reader.Unexpected("',' or ']'");
  word->texts.emplace_back();
  word->hosts =
      group.size() > kMaxSlurmHosts / word->hosts ? kMaxSlurmHosts + 1 : word->hosts * group.size();
  size_t longest = 0;
  for (const std::string& number : group) longest = std::max(longest, number.size());
  word->longest += longest;
  return absl::OkStatus();
}

absl::StatusOr<Word> ReadWord(Reader& reader, size_t room) {
  Word word;
  const size_t begin = reader.at();
  while (!reader.AtEnd() && !IsSeparator(reader.Next())) {
    const size_t at = reader.at();
    if (reader.SkipIf('[')) {
      EV_RETURN_IF_ERROR(ReadGroup(reader, &word));
      if (word.hosts > room) {
        return reader.BadAt(at, absl::StrCat("more than ", kMaxSlurmHosts, " hosts"));
      }
    } else {
      const std::string_view text = reader.SkipWhile(IsOfName);
      if (text.empty()) return reader.Unexpected("a host name or '['");
      word.texts.back() += std::string(text);
      word.longest += text.size();
    }
    if (word.longest > kMaxHostName) {
      return reader.BadAt(begin, absl::StrCat("a host name of more than ", kMaxHostName, " bytes"));
    }
  }
  if (word.hosts > room) {
    return reader.BadAt(begin, absl::StrCat("more than ", kMaxSlurmHosts, " hosts"));
  }
  return word;
}

// In Slurm's order: the last group runs fastest; of the others, the first.
void Expand(const Word& word, std::vector<std::string>* hosts) {
  const size_t groups = word.groups.size();
  std::vector<size_t> order;  // fastest first
  if (groups > 0) order.push_back(groups - 1);
  for (size_t i = 0; i + 1 < groups; ++i) order.push_back(i);
  std::vector<size_t> at(groups, 0);
  for (size_t n = 0; n < word.hosts; ++n) {
    std::string& host = hosts->emplace_back(word.texts[0]);
    for (size_t i = 0; i < groups; ++i) host += word.groups[i][at[i]] + word.texts[i + 1];
    for (const size_t i : order) {
      if (++at[i] < word.groups[i].size()) break;
      at[i] = 0;
    }
  }
}

absl::Status CheckSize(const Reader& reader, std::string_view text) {
  if (text.size() <= kMaxSlurmText) return absl::OkStatus();
  return reader.BadAt(kMaxSlurmText, absl::StrCat("a text of ", text.size(), " bytes; ",
                                                  kMaxSlurmText, " are the most"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandSlurmHosts(std::string_view text,
                                                          std::string_view where) {
  Reader reader(text, where, "EV520", kHostCure);
  EV_RETURN_IF_ERROR(CheckSize(reader, text));
  std::vector<std::string> hosts;
  for (;;) {
    reader.SkipWhile(IsSeparator);
    if (reader.AtEnd()) break;
    EV_ASSIGN_OR_RETURN(const Word word, ReadWord(reader, kMaxSlurmHosts - hosts.size()));
    Expand(word, &hosts);
  }
  if (hosts.empty()) return reader.BadAt(0, "names no host");
  return hosts;
}

absl::StatusOr<std::vector<int>> ExpandSlurmTasksPerNode(std::string_view text,
                                                         std::string_view where) {
  Reader reader(text, where, "EV521", kTasksCure);
  EV_RETURN_IF_ERROR(CheckSize(reader, text));
  std::vector<int> result;
  uint64_t total = 0;
  do {
    const size_t at = reader.at();
    std::string_view digits;
    uint64_t tasks = 0, nodes = 1;
    EV_RETURN_IF_ERROR(ReadNumber(reader, &digits, &tasks));
    if (reader.SkipIf('(')) {
      if (!reader.SkipIf('x')) return reader.Unexpected("'x' and a number of nodes");
      EV_RETURN_IF_ERROR(ReadNumber(reader, &digits, &nodes));
      if (!reader.SkipIf(')')) return reader.Unexpected("')'");
    }
    if (tasks == 0 || nodes == 0) return reader.BadAt(at, "a number that is 0");
    if (tasks > kMaxSlurmHosts || nodes > kMaxSlurmHosts ||
        tasks * nodes > kMaxSlurmHosts - total) {
      return reader.BadAt(at, absl::StrCat("more than ", kMaxSlurmHosts, " tasks"));
    }
    total += tasks * nodes;
    result.insert(result.end(), nodes, static_cast<int>(tasks));
  } while (reader.SkipIf(','));
  if (!reader.AtEnd()) return reader.Unexpected("',' or '('");
  return result;
}

}  // namespace everstep
