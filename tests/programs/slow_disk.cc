// tests: preloaded into processes, makes the writing calls on files below $SLOW_DISK hang for as
// long as the file $SLOW_DISK_NOW exists: a file server that does not answer.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

namespace {

void HangOnPath(const char* path) {
  const char* below = getenv("SLOW_DISK");
  const char* now = getenv("SLOW_DISK_NOW");
  if (below == NULL || now == NULL || strncmp(path, below, strlen(below)) != 0) return;
  const struct timespec pause = {0, 20 * 1000 * 1000};
  while (access(now, F_OK) == 0) nanosleep(&pause, NULL);
}

void HangOnFile(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = '\0';
  HangOnPath(path);
}

template <typename F>
F* Real(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define REAL(name) Real(&name, #name)

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  HangOnFile(fd);
  return REAL(write)(fd, data, size);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  HangOnFile(fd);
  return REAL(writev)(fd, parts, count);
}
int fsync(int fd) {
  HangOnFile(fd);
  return REAL(fsync)(fd);
}
int fdatasync(int fd) {
  HangOnFile(fd);
  return REAL(fdatasync)(fd);
}
int rename(const char* from, const char* to) {
  HangOnPath(to);
  return REAL(rename)(from, to);
}
int mkdir(const char* path, mode_t mode) {
  HangOnPath(path);
  return REAL(mkdir)(path, mode);
}
int unlink(const char* path) {
  HangOnPath(path);
  return REAL(unlink)(path);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
  va_end(rest);
  if ((flags & O_ACCMODE) != O_RDONLY) HangOnPath(path);
  return REAL(open)(path, flags, mode);
}

}  // extern "C"
