#!/usr/bin/env bash
# Installs what Everstep needs to build, run and test on Debian 12. Idempotent; a second run does nothing.
set -euo pipefail

packages=(
  # build
  build-essential cmake ninja-build ccache git ca-certificates python3 python3-venv
  # libraries (docs/dependencies.md gives the reason for each)
  libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libtorch-dev libopenblas0-openmp libleveldb-dev libisal-dev libxxhash-dev zlib1g-dev libssl-dev
  libc-ares-dev libdw-dev libbz2-dev libsnappy-dev nlohmann-json3-dev rapidjson-dev libcli11-dev libfmt-dev libspdlog-dev
  # tests: two "hosts" on one machine, pinned workers, a terminal
  libgtest-dev libgmock-dev iproute2 util-linux procps
  # tests: scontrol, the judge of host lists
  slurm-client
  # tests: real torch in Python
  python3-torch
  # packages of our own (cpack), and an older release to install them in
  dpkg-dev file debootstrap
)

missing=()
for package in "${packages[@]}"; do
  if [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" != "install ok installed" ]; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "setup: these packages are missing and need root to install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
