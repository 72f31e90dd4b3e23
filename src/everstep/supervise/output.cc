// supervise: the output pump.
#include "everstep/supervise/output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"
#include "everstep/supervise/output_text.h"

namespace everstep {
namespace {

constexpr size_t kBuffer = 64 * 1024;
constexpr size_t kTailLines = 20;
constexpr size_t kTailLineBytes = 1000;
// What one that has ended may still have in its pipes, which hold less; a stray process that goes
// on writing must not hold up the news of its end.
constexpr size_t kLastBytes = 4 << 20;
constexpr size_t kCaptureBytes = 4 << 20;
// For the log of one that has ended; the news of its end must not wait for a disk.
constexpr Duration kLogPatience = std::chrono::milliseconds(20);

}  // namespace

void LineSplitter::Feed(std::string_view bytes, const std::function<void(std::string_view)>& line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const size_t room = kMaxLine - rest_.size();
    if (part.size() > room) {
      rest_.append(part.substr(0, room));
      bytes.remove_prefix(room);
      Finish(line);
      continue;
    }
    if (end == std::string_view::npos) {
      rest_.append(part);
      return;
    }
    if (rest_.empty()) {
      line(part);
    } else {
      rest_.append(part);
      Finish(line);
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(const std::function<void(std::string_view)>& line) {
  if (rest_.empty()) return;
  line(rest_);
  rest_.clear();
}

void Capture::Begin() {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ = true;
}

size_t Capture::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return text_.size();
}

std::string Capture::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  return std::exchange(text_, "");
}

void Capture::Add(std::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_) text_ += bytes.substr(0, kCaptureBytes - text_.size());
}

struct OutputPump::Child {
  Task task;
  std::unique_ptr<Log> log;        // null: none
  std::unique_ptr<Log> libraries;  // null: they have none of their own
  const std::shared_ptr<Capture> capture = std::make_shared<Capture>();
  std::function<void(size_t)> saw;
  // The pump's thread:
  UniqueFd pipes[2];  // out, err
  LineSplitter lines[2];
  bool binary[2] = {};  // the last line was no text
  // Under the pump's mutex:
  bool finish = false;
  bool closed = false;
  std::deque<std::string> tail;
};

OutputPump::OutputPump(FileSystem& fs, LineSink sink, std::function<bool(OutputStream)> raw)
    : sink_(std::move(sink)),
      raw_{raw && raw(OutputStream::kOut), raw && raw(OutputStream::kErr)},
      logs_(fs),
      buffer_(kBuffer) {
  absl::StatusOr<UniqueFd> wake = MakeEventFd();
  if (wake.ok()) wake_ = *std::move(wake);
  thread_ = std::thread([this] { Run(); });
}

OutputPump::~OutputPump() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  SignalEventFd(wake_.get());
  thread_.join();
}

void OutputPump::Add(const Task& task, Incarnation incarnation, UniqueFd out, UniqueFd err,
                     LogPaths logs, std::function<void(size_t)> saw) {
  auto child = std::make_shared<Child>();
  child->task = task;
  child->saw = std::move(saw);
  if (!logs.log.empty()) child->log = logs_.Open(std::move(logs.log));
  if (!logs.libraries.empty()) child->libraries = logs_.Open(std::move(logs.libraries));
  SetNonBlocking(out.get());
  SetNonBlocking(err.get());
  child->pipes[0] = std::move(out);
  child->pipes[1] = std::move(err);
  known_[incarnation] = child;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(child));
    ++open_;
  }
  SignalEventFd(wake_.get());
}

std::shared_ptr<Capture> OutputPump::CaptureOf(Incarnation incarnation) const {
  const auto it = known_.find(incarnation);
  return it == known_.end() ? nullptr : it->second->capture;
}

std::string OutputPump::Finish(Incarnation incarnation, Duration patience) {
  const auto it = known_.find(incarnation);
  if (it == known_.end()) return "";
  const std::shared_ptr<Child> child = it->second;
  known_.erase(it);
  std::unique_lock<std::mutex> lock(mutex_);
  child->finish = true;
  SignalEventFd(wake_.get());
  done_.wait_for(lock, patience, [&] { return child->closed; });
  std::string tail;
  for (const std::string& line : child->tail) absl::StrAppend(&tail, line, "\n");
  return tail;
}

bool OutputPump::Flush(Duration patience) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!done_.wait_for(lock, patience, [&] { return open_ == 0; })) return false;
  }
  return logs_.Flush(patience);
}

void OutputPump::TakeOrders() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& child : added_) children_.push_back(std::move(child));
  added_.clear();
}

void OutputPump::Run() {
  std::vector<PollItem> items;
  while (true) {
    TakeOrders();
    std::vector<std::shared_ptr<Child>> ended;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
      for (const auto& child : children_) {
        if (child->finish) ended.push_back(child);
      }
    }
    for (const auto& child : ended) Close(*child);
    children_.erase(std::remove_if(children_.begin(), children_.end(),
                                   [&](const std::shared_ptr<Child>& child) {
                                     return std::find(ended.begin(), ended.end(), child) !=
                                            ended.end();
                                   }),
                    children_.end());
    items.clear();
    items.push_back({wake_.get(), true});
    for (const auto& child : children_) {
      for (const UniqueFd& pipe : child->pipes) items.push_back({pipe.get(), true});
    }
    (void)Poll(absl::MakeSpan(items), std::chrono::hours(1));
    if (items[0].readable) DrainEventFd(wake_.get());
    for (size_t i = 0; i < children_.size(); ++i) {
      for (int which : {0, 1}) {
        // One buffer from each, so that a chatty one does not silence the others.
        if (items[1 + 2 * i + which].readable) ReadFrom(*children_[i], which, kBuffer);
      }
    }
  }
}

bool OutputPump::ReadFrom(Child& child, int which, size_t most) {
  UniqueFd& pipe = child.pipes[which];
  if (!pipe.valid()) return false;
  const ptrdiff_t n = ReadSome(pipe.get(), buffer_.data(), std::min(most, buffer_.size()));
  if (n == 0) pipe.Reset();
  if (n <= 0) return false;
  Take(child, which, std::string_view(buffer_.data(), n));
  return true;
}

void OutputPump::Take(Child& child, int which, std::string_view bytes) {
  if (child.saw) child.saw(bytes.size());
  if (which == 1) child.capture->Add(bytes);
  // Where lines go to two logs, they go as lines.
  const bool sort = which == 1 && child.libraries != nullptr;
  if (child.log != nullptr && !sort) {
    child.log->Append(bytes);
    TellOfLog(child);
  }
  child.lines[which].Feed(bytes, [&](std::string_view line) { Line(child, which, line); });
}

void OutputPump::Line(Child& child, int which, std::string_view line) {
  if (which == 1 && child.libraries != nullptr) {
    const bool chatter = IsLibraryChatter(line);
    Log* log = chatter ? child.libraries.get() : child.log.get();
    if (log != nullptr) {
      log->Append(absl::StrCat(ToAbsl(line), "\n"));
      TellOfLog(child);
    }
    if (chatter) return;
  }
  const OutputStream stream = which == 0 ? OutputStream::kOut : OutputStream::kErr;
  PrintableLine printable = MakePrintable(line);
  const bool again = std::exchange(child.binary[which], printable.binary) && printable.binary;
  if (printable.binary) printable.text = "[bytes that are no text: they are in the log only]";
  if (!again) Remember(child, printable.text);
  if (raw_[which]) {
    sink_(child.task, stream, LastForm(line));
  } else if (!again) {
    sink_(child.task, stream, printable.text);
  }
}

void OutputPump::TellOfLog(Child& child) {
  for (Log* log : {child.log.get(), child.libraries.get()}) {
    const std::string error = log == nullptr ? "" : log->TakeError();
    if (error.empty()) continue;
    const std::string line = absl::StrCat("[not in its log: ", error, "]");
    Remember(child, line);
    sink_(child.task, OutputStream::kErr, line);
  }
}

void OutputPump::Remember(Child& child, std::string_view line) {
  std::lock_guard<std::mutex> lock(mutex_);
  child.tail.emplace_back(line.substr(0, kTailLineBytes));
  if (child.tail.size() > kTailLines) child.tail.pop_front();
}

void OutputPump::Close(Child& child) {
  for (int which : {0, 1}) {
    for (size_t bytes = 0; bytes < kLastBytes && ReadFrom(child, which, kBuffer);) {
      bytes += kBuffer;
    }
    child.lines[which].Finish([&](std::string_view line) { Line(child, which, line); });
    child.pipes[which].Reset();
  }
  if (child.libraries != nullptr) child.libraries->Close();
  if (child.log != nullptr) {
    child.log->Close();
    (void)logs_.Flush(kLogPatience);
    TellOfLog(child);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  child.closed = true;
  --open_;
  done_.notify_all();
}

}  // namespace everstep
