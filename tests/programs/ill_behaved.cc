// tests: what only a compiled program does badly: its main thread ends by itself while another one
// goes on, prints "going on" SECONDS later and ends the process with code 0.
//   ill_behaved zombie SECONDS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

void* GoOn(void* seconds) {
  usleep(static_cast<useconds_t>(atof(static_cast<char*>(seconds)) * 1e6));
  puts("going on");
  fflush(stdout);
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || strcmp(argv[1], "zombie") != 0) return 2;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, GoOn, argv[2]) != 0) return 3;
  pthread_exit(nullptr);
}
