// metrics: the log facade. Lines go to standard error as
//   I 16:31:02.123456 worker:0 collective: linked to 3 peers
// Any thread may log at any time; a line is written by one write(2).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace everstep::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

// Set once at the start by whoever owns the process. `who` names the task in each line, may be
// empty.
void Init(Level level, std::string_view who);
// "debug", "info", "warning", "error", "off"; false when it is none of them.
bool ParseLevel(std::string_view text, Level* level);

bool Enabled(Level level);
void Write(Level level, std::string_view room, std::string_view text);

template <typename... Args>
void Debug(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kDebug))
    Write(Level::kDebug, room, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void Info(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kInfo))
    Write(Level::kInfo, room, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void Warning(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kWarning))
    Write(Level::kWarning, room, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void Error(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (Enabled(Level::kError))
    Write(Level::kError, room, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace everstep::log
