// supervise: the log writer.
#include "everstep/supervise/log_writer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"

namespace everstep {

// Shared with the thread, which may outlive the LogWriter when a disk hangs.
struct LogWriter::Queue {
  struct Piece {
    std::shared_ptr<Log::State> log;
    std::string bytes;
    bool close = false;
  };

  Queue(FileSystem& files, int64_t most) : fs(files), max_part(most) {}
  FileSystem& fs;
  const int64_t max_part;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> pieces;
  size_t waiting = 0;  // bytes
  bool busy = false;
  bool stop = false;

  void Push(Piece piece);
  void Run();
};

struct Log::State {
  std::string path;
  std::shared_ptr<LogWriter::Queue> queue;
  // The writer's thread:
  std::unique_ptr<WritableFile> file;
  int64_t size = 0;  // of this part
  // Under the queue's mutex:
  int64_t left_out = 0;  // bytes since the last that were written
  std::string error;
  bool in_trouble = false;

  absl::Status Write(FileSystem& fs, std::string_view bytes);
};

absl::Status Log::State::Write(FileSystem& fs, std::string_view bytes) {
  const auto length = static_cast<int64_t>(bytes.size());
  if (file != nullptr && size + length > queue->max_part) {
    EV_RETURN_IF_ERROR(std::exchange(file, nullptr)->Close());
    EV_RETURN_IF_ERROR(fs.Rename(path, path + ".1"));
    size = 0;
  }
  if (file == nullptr) {
    EV_RETURN_IF_ERROR(fs.CreateDirectories(path.substr(0, path.rfind('/'))));
    EV_ASSIGN_OR_RETURN(file, fs.OpenForWriting(path, FileSystem::Create::kAppend));
  }
  size += length;
  return file->Append(bytes);
}

void LogWriter::Queue::Push(Piece piece) {
  std::lock_guard<std::mutex> lock(mutex);
  Log::State& log = *piece.log;
  if (waiting + piece.bytes.size() > kMaxWaiting) {
    log.left_out += static_cast<int64_t>(piece.bytes.size());
    if (!std::exchange(log.in_trouble, true)) {
      log.error = absl::StrCat(log.path, ": the disk does not keep up");
    }
    piece.bytes.clear();
    if (!piece.close) return;
  }
  waiting += piece.bytes.size();
  pieces.push_back(std::move(piece));
  changed.notify_all();
}

void LogWriter::Queue::Run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stop || !pieces.empty(); });
    if (pieces.empty()) return;
    Piece piece = std::move(pieces.front());
    pieces.pop_front();
    busy = true;
    Log::State& log = *piece.log;
    const int64_t missing = log.left_out;
    lock.unlock();
    absl::Status status;
    if (missing > 0) {
      status = log.Write(fs, absl::StrCat("\n[", missing,
                                          " bytes are missing here: the disk did "
                                          "not take them]\n"));
    }
    const bool told = status.ok();
    if (status.ok() && !piece.bytes.empty()) status = log.Write(fs, piece.bytes);
    if (piece.close && log.file != nullptr) {
      absl::Status closed = log.file->Close();
      if (status.ok()) status = std::move(closed);
      log.file.reset();
    }
    lock.lock();
    busy = false;
    waiting -= piece.bytes.size();
    if (told) log.left_out -= missing;
    if (!status.ok()) {
      log.left_out += static_cast<int64_t>(piece.bytes.size());
      if (!std::exchange(log.in_trouble, true)) log.error = std::string(status.message());
    } else {
      log.in_trouble = false;
    }
    changed.notify_all();
  }
}

void Log::Append(std::string_view bytes) {
  state_->queue->Push({state_, std::string(bytes), false});
}

void Log::Close() { state_->queue->Push({state_, "", true}); }

std::string Log::TakeError() {
  std::lock_guard<std::mutex> lock(state_->queue->mutex);
  return std::exchange(state_->error, "");
}

LogWriter::LogWriter(FileSystem& fs, int64_t max_part)
    : queue_(std::make_shared<Queue>(fs, max_part)), thread_([queue = queue_] { queue->Run(); }) {}

LogWriter::~LogWriter() {
  const bool done = Flush(std::chrono::seconds(2));
  {
    std::lock_guard<std::mutex> lock(queue_->mutex);
    queue_->stop = true;
    queue_->changed.notify_all();
  }
  done ? thread_.join() : thread_.detach();
}

std::unique_ptr<Log> LogWriter::Open(std::string path) {
  auto state = std::make_shared<Log::State>();
  state->path = std::move(path);
  state->queue = queue_;
  return std::unique_ptr<Log>(new Log(std::move(state)));
}

bool LogWriter::Flush(Duration patience) {
  std::unique_lock<std::mutex> lock(queue_->mutex);
  return queue_->changed.wait_for(lock, patience,
                                  [&] { return queue_->pieces.empty() && !queue_->busy; });
}

}  // namespace everstep
