#!/usr/bin/env bash
# Installs, builds and runs every test. Three builds: the rooms without torch under ASan and UBSan,
# what several threads share under TSan, and the real one, whose ctest summary comes last.
#   scripts/test.sh            all of it
#   scripts/test.sh --quick    only the real build
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

scripts/setup.sh

build() {  # directory, cmake's options, then -- and targets
  local directory=$1 options=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  cmake -G Ninja -B "$directory" "${options[@]}" >"$directory.configure.log" 2>&1 || {
    cat "$directory.configure.log"
    return 1
  }
  cmake --build "$directory" --parallel "$jobs" ${1:+--target "$@"}
}

if [ "${1:-}" != --quick ]; then
  build build-asan -DEVERSTEP_TORCH=OFF -DEVERSTEP_SANITIZE=address,undefined
  ASAN_OPTIONS=detect_leaks=1 ctest --test-dir build-asan --output-on-failure -j "$jobs" -L unit
  build build-tsan -DEVERSTEP_TORCH=OFF -DEVERSTEP_SANITIZE=thread -- add_test reduce_test \
    communicator_test death_test endpoint_test collective_parts_test stream_link_test decide_test \
    control_test engine_test data_test job_directory_journal_test job_term_test supervise_log_writer_test supervise_output_test \
    supervise_agent_test supervise_watch_test
  TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp halt_on_error=1" \
    ctest --test-dir build-tsan --output-on-failure -j "$jobs" -L '^(collective|membership|engine|data)$'
  TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp halt_on_error=1" \
    ctest --test-dir build-tsan --output-on-failure -j "$jobs" -R '^(job_directory_journal|job_term|supervise_(log_writer|output|agent|watch))_test$'
fi

build build
status=0
ctest --test-dir build --output-on-failure -j "$jobs" --output-junit "$PWD/build/junit.xml" || status=$?
# Silent when all is well, so that ctest's summary stays the last word.
python3 tests/check_skips.py build/junit.xml tests/expected_skips.txt || status=1
exit "$status"
