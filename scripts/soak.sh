#!/usr/bin/env bash
# The long matrices: what scripts/test.sh does a little of, for hours. Needs a build (scripts/test.sh).
#   scripts/soak.sh [FACTOR]     FACTOR times as much (default 10); stops at the first failure
set -euo pipefail
cd "$(dirname "$0")/.."
factor=${1:-10}
export EVERSTEP_BIN=$PWD/build/bin

python3 tests/restart_test.py $((100 * factor)) $((50 * factor))
python3 tests/cleanup_test.py $((200 * factor))
for _ in $(seq "$factor"); do
  python3 tests/stop_test.py
  python3 tests/failing_programs_test.py
  python3 tests/storage_test.py
done
echo "soak: all passed, $factor times"
