// env: stacks of threads, unwound and named by elfutils' libdwfl.
#include "everstep/env/thread_stacks.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <string.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/env/clock.h"
#include "everstep/env/thread_stacks_stop.h"

// Elfutils' archive looks for libdebuginfod with dlopen when a program starts, which one that is a
// static file must not do. These stand in for it there, and mean nothing elsewhere.
extern "C" {
int __libdwfl_debuginfod_find_executable(Dwfl*, const unsigned char*, size_t) { return -1; }
int __libdwfl_debuginfod_find_debuginfo(Dwfl*, const unsigned char*, size_t) { return -1; }
void __libdwfl_debuginfod_end(void*) {}
}

namespace everstep {
namespace {

constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxName = 300;  // of a function; templates have longer ones
constexpr size_t kMaxNamed = 6;   // threads of one stack that are listed

// Debug information that is installed beside the program. Elfutils' own search would ask servers.
int FindDebugInfo(Dwfl_Module* module, void**, const char*, Dwarf_Addr, const char*, const char*,
                  GElf_Word, char** path) {
  const unsigned char* id = nullptr;
  GElf_Addr address = 0;
  const int size = dwfl_module_build_id(module, &id, &address);
  if (size < 2) return -1;
  std::string file = absl::StrFormat("/usr/lib/debug/.build-id/%02x/", id[0]);
  for (int i = 1; i < size; ++i) absl::StrAppendFormat(&file, "%02x", id[i]);
  file += ".debug";
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) *path = strdup(file.c_str());
  return fd;
}

using Frames = std::vector<Dwarf_Addr>;

struct Unwinding {
  Deadline deadline;
  Frames frames;
};

int OnFrame(Dwfl_Frame* state, void* argument) {
  auto* unwinding = static_cast<Unwinding*>(argument);
  Dwarf_Addr pc = 0;
  bool innermost = false;
  if (!dwfl_frame_pc(state, &pc, &innermost)) return DWARF_CB_ABORT;
  // A return address is behind the call, which may have been the last thing of its function.
  unwinding->frames.push_back(innermost ? pc : pc - 1);
  const bool enough =
      unwinding->frames.size() >= kMaxFrames || RealClock().Now() >= unwinding->deadline;
  return enough ? DWARF_CB_ABORT : DWARF_CB_OK;
}

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), free);
  std::string result = status == 0 && text != nullptr ? text.get() : name;
  if (result.size() > kMaxName) result = result.substr(0, kMaxName) + "...";
  return result;
}

std::string BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

std::string Describe(Dwfl* dwfl, Dwarf_Addr at, Deadline deadline) {
  Dwfl_Module* module = dwfl_addrmodule(dwfl, at);
  if (module == nullptr) return absl::StrFormat("0x%x", at);
  const std::string file = BaseName(
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  if (RealClock().Now() >= deadline) return absl::StrFormat("0x%x in %s", at, file);
  GElf_Off offset = 0;
  GElf_Sym symbol;
  const char* name = dwfl_module_addrinfo(module, at, &offset, &symbol, nullptr, nullptr, nullptr);
  const std::string function = name == nullptr ? absl::StrFormat("0x%x", at) : Demangled(name);
  int line_number = 0;
  Dwfl_Line* line = dwfl_module_getsrc(module, at);
  const char* source = line == nullptr
                           ? nullptr
                           : dwfl_lineinfo(line, nullptr, &line_number, nullptr, nullptr, nullptr);
  if (source == nullptr) return absl::StrCat(function, " in ", file);
  return absl::StrCat(function, " at ", source, ":", line_number);
}

struct CloseDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};
using DwflHandle = std::unique_ptr<Dwfl, CloseDwfl>;

DwflHandle Open(pid_t pid) {
  static const Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, FindDebugInfo, nullptr,
                                           nullptr};
  DwflHandle dwfl(dwfl_begin(&callbacks));
  if (dwfl == nullptr || dwfl_linux_proc_report(dwfl.get(), pid) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0) {
    return nullptr;
  }
  return dwfl;
}

// A word for what ps(1) has a letter for.
const char* StateName(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "asleep";
    case 'D':
      return "asleep in the kernel, and cannot be woken";
    case 'T':
      return "stopped by a signal";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "in an unknown state";
  }
}

std::string Heading(const std::vector<const ThreadOfOther*>& threads) {
  std::string text = threads.size() == 1 ? "thread" : absl::StrCat(threads.size(), " threads:");
  for (size_t i = 0; i < threads.size() && i < kMaxNamed; ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", threads[i]->tid, " \"", threads[i]->name, "\"");
  }
  if (threads.size() > kMaxNamed) text += ", ...";
  return absl::StrCat(text, ", ", StateName(threads[0]->state), ":\n");
}

// Threads with equal stacks stand together, where the first of them stands.
std::string Write(const std::vector<ThreadOfOther>& threads,
                  const std::map<pid_t, std::string>& stacks) {
  std::map<std::string, std::vector<const ThreadOfOther*>> alike;
  std::vector<const std::string*> order;
  for (const ThreadOfOther& thread : threads) {
    const auto stack = stacks.find(thread.tid);
    std::string body = stack != stacks.end() ? stack->second
                       : thread.waiting.empty()
                           ? "  (no stack)\n"
                           : absl::StrCat("  in the kernel's ", thread.waiting, "\n");
    const auto [entry, is_new] = alike.try_emplace(std::move(body));
    if (is_new) order.push_back(&entry->first);
    entry->second.push_back(&thread);
  }
  std::string text;
  for (const std::string* body : order) absl::StrAppend(&text, Heading(alike[*body]), *body);
  return text;
}

std::string TakeStacks(pid_t pid, Deadline deadline) {
  const std::vector<ThreadOfOther> threads = ThreadsOf(pid);
  if (threads.empty()) return absl::StrCat("process ", pid, " has ended\n");
  const DwflHandle dwfl = Open(pid);
  std::map<pid_t, Frames> frames;
  std::string refused;
  {
    const StoppedThreads stopped(pid, deadline);
    refused = stopped.refused();
    if (refused.empty() && dwfl != nullptr && dwfl_linux_proc_attach(dwfl.get(), pid, true) == 0) {
      for (const ThreadOfOther& thread : threads) {
        if (!stopped.IsStopped(thread.tid) || RealClock().Now() >= deadline) continue;
        Unwinding unwinding{deadline, {}};
        // It ends by an error more often than not: at what no information leads beyond.
        dwfl_getthread_frames(dwfl.get(), thread.tid, OnFrame, &unwinding);
        if (!unwinding.frames.empty()) frames[thread.tid] = std::move(unwinding.frames);
      }
    }
  }
  // They run again; names take longer than stacks.
  std::map<Dwarf_Addr, std::string> names;
  std::map<pid_t, std::string> stacks;
  for (const auto& [tid, list] : frames) {
    std::string& text = stacks[tid];
    for (size_t i = 0; i < list.size(); ++i) {
      std::string& name = names[list[i]];
      if (name.empty()) name = Describe(dwfl.get(), list[i], deadline);
      absl::StrAppend(&text, "  #", i, " ", name, "\n");
    }
  }
  std::string text = Write(threads, stacks);
  if (!refused.empty()) {
    text = absl::StrCat("the stacks of process ", pid, " cannot be taken: ", refused, "\n", text);
  }
  return text;
}

}  // namespace

std::string NativeStacks(pid_t pid, Duration patience) {
  struct Work {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::string text;
  };
  // In a thread of its own: a file of the program may be on a disk that does not answer.
  const auto work = std::make_shared<Work>();
  std::thread thread([work, pid, deadline = After(RealClock(), patience)] {
    std::string text = TakeStacks(pid, deadline);
    std::lock_guard<std::mutex> lock(work->mutex);
    work->text = std::move(text);
    work->done = true;
    work->changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(work->mutex);
  const bool done =
      work->changed.wait_for(lock, patience + std::chrono::seconds(1), [&] { return work->done; });
  lock.unlock();
  if (!done) {
    thread.detach();
    return absl::StrCat("the stacks of process ", pid, " could not be taken within ",
                        ToSeconds(patience), " s\n");
  }
  thread.join();
  return work->text;
}

}  // namespace everstep
