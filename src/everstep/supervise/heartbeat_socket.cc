// supervise: heartbeats.
#include "everstep/supervise/heartbeat_socket.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/types/span.h"
#include "everstep/base/status.h"
#include "everstep/env/datagram.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

constexpr size_t kMaxBytes = 512;
constexpr size_t kMaxPhase = 64;
constexpr int kMaxAtOnce = 64;
constexpr double kLongestPromise = 30 * 86400.0;  // seconds; more is taken for so much
constexpr std::string_view kFirstWord = "everstep1";

template <typename T>
bool ParseAll(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadWord(std::string_view key, std::string_view value, Heartbeat* beat) {
  if (key == "step") {
    Step step = 0;
    if (!ParseAll(value, &step) || step < 0) return false;
    beat->step = step;
  } else if (key == "phase") {
    beat->phase = std::string(value.substr(0, kMaxPhase));
  } else if (key == "expect") {
    double seconds = 0;
    if (!ParseAll(value, &seconds) || !(seconds >= 0)) return false;
    seconds = std::min(seconds, kLongestPromise);
    beat->expect = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
  }
  return true;
}

}  // namespace

std::optional<Heartbeat> ParseHeartbeat(std::string_view text) {
  if (text.size() > kMaxBytes) return std::nullopt;
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (char c : text) {
    if (c < ' ' || c > '~') return std::nullopt;
  }
  if (text.substr(0, kFirstWord.size()) != kFirstWord) return std::nullopt;
  text.remove_prefix(kFirstWord.size());
  Heartbeat beat;
  while (!text.empty()) {
    if (text.front() != ' ') return std::nullopt;
    text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    if (!ReadWord(word.substr(0, equals), word.substr(equals + 1), &beat)) return std::nullopt;
  }
  return beat;
}

absl::StatusOr<std::unique_ptr<HeartbeatSocket>> HeartbeatSocket::Open(std::string path) {
  EV_ASSIGN_OR_RETURN(UniqueFd fd, BindDatagram(path));
  return std::unique_ptr<HeartbeatSocket>(new HeartbeatSocket(std::move(path), std::move(fd)));
}

HeartbeatSocket::~HeartbeatSocket() { (void)RealFileSystem().Remove(path_); }

void HeartbeatSocket::Take(absl::FunctionRef<void(const Heartbeat&)> on) {
  char buffer[kMaxBytes + 1];
  for (int i = 0; i < kMaxAtOnce; ++i) {
    const std::optional<size_t> size = ReceiveDatagram(fd_.get(), absl::MakeSpan(buffer));
    if (!size.has_value()) return;
    const std::optional<Heartbeat> beat =
        *size <= kMaxBytes ? ParseHeartbeat({buffer, *size}) : std::nullopt;
    beat.has_value() ? on(*beat) : void(++garbage_);
  }
}

}  // namespace everstep
