// env: memfd, mmap and futex, Linux form.
#include "everstep/env/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}  // namespace

absl::StatusOr<UniqueFd> CreateSharedMemory(const std::string& name, size_t bytes) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("memfd ", name, ": ", strerror(errno)));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memfd ", name, " of ", bytes, " bytes: ", strerror(errno)));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::InternalError(absl::StrCat("sealing memfd ", name, ": ", strerror(errno)));
  }
  return fd;
}

absl::StatusOr<SharedMapping> SharedMapping::Map(int fd, size_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        "shared memory from a peer is not a memfd sealed against resizing; refused");
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory has ", info.st_size, " bytes where ", bytes, " were expected"));
  }
  SharedMapping mapping;
  if (bytes == 0) return mapping;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mapping ", bytes, " bytes of shared memory: ", strerror(errno)));
  }
  mapping.data_ = static_cast<std::byte*>(at);
  mapping.size_ = bytes;
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) {
    return absl::InternalError(absl::StrCat("MADV_DONTFORK: ", strerror(errno)));
  }
  return mapping;
}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::Status SharedMapping::ProtectAgainstWrites(size_t offset, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (::mprotect(data_ + offset, bytes, PROT_READ) != 0) {
    return absl::InternalError(absl::StrCat("mprotect: ", strerror(errno)));
  }
  return absl::OkStatus();
}

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout) noexcept {
  if (timeout <= Duration::zero()) return;
  timespec relative;
  relative.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
  // Not FUTEX_PRIVATE: the waker may be another process.
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void FutexWakeAll(const std::atomic<uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace everstep
