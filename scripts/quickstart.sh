#!/usr/bin/env bash
# From a clean clone to a network trained by four workers: installs packages, builds, imports MNIST to
# TFRecord, trains, shows the accuracy and where the job directory is.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
[ -f build/build.ninja ] || cmake -G Ninja -B build >/dev/null
cmake --build build --parallel "$(nproc)" --target everstep mnist

bin=build/bin
data=mnist-data
for split in train:train t10k:test; do
  from=${split%%:*} to=${split##*:}
  [ -f "$data/$to.tfrecord" ] && continue
  mkdir -p "$data"
  "$bin/everstep" records import idx \
    --images "examples/mnist/data/$from-images-idx3-ubyte.gz" \
    --labels "examples/mnist/data/$from-labels-idx1-ubyte.gz" \
    --output "$data/$to.tfrecord"
done

exec "$bin/everstep" run -n 4 -- "$bin/mnist" --data "$data" "$@"
