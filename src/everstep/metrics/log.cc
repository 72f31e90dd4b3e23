// metrics: log lines through spdlog.
#include "everstep/metrics/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace everstep::log {
namespace {

std::atomic<int> g_level{static_cast<int>(Level::kWarning)};

spdlog::logger& Logger() {
  // Never destroyed: threads may log while the program ends.
  static auto* logger =
      new spdlog::logger("everstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return *logger;
}

}  // namespace

void Init(Level level, std::string_view who) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
  Logger().set_level(spdlog::level::trace);
  Logger().flush_on(spdlog::level::trace);
  std::string name(who);
  if (!name.empty()) name += ' ';
  Logger().set_pattern(fmt::format("%L %H:%M:%S.%f {}%v", name));
}

bool ParseLevel(std::string_view text, Level* level) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "off"};
  for (int i = 0; i < 5; ++i) {
    if (text == kNames[i]) {
      *level = static_cast<Level>(i);
      return true;
    }
  }
  return false;
}

bool Enabled(Level level) {
  return static_cast<int>(level) >= g_level.load(std::memory_order_relaxed);
}

void Write(Level level, std::string_view room, std::string_view text) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  Logger().log(kLevels[static_cast<int>(level)], "{}: {}", room, text);
}

}  // namespace everstep::log
