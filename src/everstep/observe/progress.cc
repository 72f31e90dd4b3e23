// observe: progress bar and progress lines.
#include "everstep/observe/progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace everstep {
namespace {

constexpr Duration kBarInterval = std::chrono::milliseconds(100);
constexpr Duration kLineInterval = std::chrono::seconds(10);
constexpr int kWidestBar = 30, kNarrowestBar = 8;

// 41200 as "41,200".
std::string Thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return digits;
}

std::string Bar(int64_t done, int64_t all, int width) {
  const int64_t filled = all > 0 ? std::min<int64_t>(width, done * width / all) : 0;
  std::string bar(filled, '=');
  if (filled < width) {
    bar += '>';
    bar.append(width - filled - 1, ' ');
  }
  return bar;
}

}  // namespace

std::string ProgressBar(const Scalars& s, int workers, int width) {
  const std::string head = fmt::format("epoch {}/{} ", s.epoch + 1, std::max<int64_t>(s.epochs, 1));
  const std::string count = fmt::format(" {}/{}", s.step_in_epoch, s.steps_per_epoch);
  std::vector<std::string> words = {
      fmt::format("  {} examples/s", Thousands(s.examples_per_second))};
  for (const auto& [name, value] : s.values)
    words.push_back(fmt::format("  {} {:.4f}", name, value));
  words.push_back(fmt::format("  {} worker{}", workers, workers == 1 ? "" : "s"));

  const int fixed = static_cast<int>(head.size() + count.size()) + 2;
  int rest = 0;
  for (const std::string& word : words) rest += static_cast<int>(word.size());
  const int bar = std::clamp(width - fixed - rest, kNarrowestBar, kWidestBar);
  std::string line = head + "[" + Bar(s.step_in_epoch, s.steps_per_epoch, bar) + "]" + count;
  for (const std::string& word : words) {
    if (static_cast<int>(line.size() + word.size()) > width) break;
    line += word;
  }
  if (static_cast<int>(line.size()) > width) line.resize(std::max(width, 0));
  return line;
}

std::string ProgressLine(const Scalars& s) {
  std::string line =
      fmt::format("step {}/{}, epoch {}/{}, {:.0f} examples/s", s.step(), s.total_steps,
                  s.epoch + 1, std::max<int64_t>(s.epochs, 1), s.examples_per_second);
  for (const auto& [name, value] : s.values) line += fmt::format(", {} {:.4f}", name, value);
  return line;
}

std::string ProgressRenderer::Update(TimePoint now, const Scalars& scalars, int workers) {
  if (scalars.total_steps == 0) return {};
  const Duration interval = terminal_ ? kBarInterval : kLineInterval;
  if (!any_ && !terminal_) {  // the first line comes after the first interval: short jobs need none
    any_ = true;
    last_ = now;
    return {};
  }
  const bool done = scalars.step() >= scalars.total_steps;
  if (any_ && now - last_ < interval && !(terminal_ && done)) return {};
  any_ = true;
  last_ = now;
  if (!terminal_) return ProgressLine(scalars) + "\n";
  bar_ = ProgressBar(scalars, workers, width_ - 1);
  shown_ = false;
  return Redraw();
}

std::string ProgressRenderer::Clear() {
  if (!shown_) return {};
  shown_ = false;
  return "\r\033[K";
}

std::string ProgressRenderer::Redraw() {
  if (bar_.empty() || shown_) return {};
  shown_ = true;
  return "\r" + bar_ + "\033[K";
}

}  // namespace everstep
