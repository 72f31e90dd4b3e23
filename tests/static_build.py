# tests: the static command, built beside the build under test, and roots to start it in. Needs root.
import os
import pathlib
import shutil
import subprocess

import everstep as ev

# A sibling has the same relative paths, so the compiler cache has nearly every object already.
BUILD = ev.BIN.parent.with_name(ev.BIN.parent.name + "-static")
BUILD_LIMIT = 1500  # seconds; it is a matter of seconds with a warm compiler cache
SKIPPED = 77        # what ctest takes for it


def must(command, timeout=120, **keywords):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", timeout=timeout, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout[-4000:]}")
    return result.stdout


def can_make_roots():
    return os.geteuid() == 0 and bool(shutil.which("ip")) and subprocess.run(
        ["unshare", "-m", "-n", "-p", "-f", "true"], capture_output=True).returncode == 0


def build():
    """Builds it; returns what was said while linking and before."""
    said = must(["cmake", "-G", "Ninja", "-B", BUILD, "-S", ev.ROOT, "-DEVERSTEP_STATIC=ON"])
    return said + must(["cmake", "--build", BUILD, "--parallel", os.cpu_count()], timeout=BUILD_LIMIT)


def packages():
    """The tarball and the .deb, made anew."""
    for old in [*BUILD.glob("*.deb"), *BUILD.glob("*.tar.gz")]:
        old.unlink()
    must(["cpack", "--config", BUILD / "CPackConfig.cmake"], cwd=BUILD)
    (tarball,), (deb,) = BUILD.glob("*.tar.gz"), BUILD.glob("*.deb")
    return tarball, deb


def in_root(root, script, timeout=60, **environment):
    """Runs a shell script whose `inside COMMAND...` starts COMMAND with `root` as its root directory, in
    network, process and mount namespaces of their own: lo is up and is 10.9.8.7, too. What it leaves running
    ends with it. The environment is `environment` and nothing else."""
    prologue = f"""set -eu
mount -t proc proc {root}/proc
ip link set lo up
ip address add 10.9.8.7/32 dev lo
inside() {{ env -i {' '.join(f'{k}={v}' for k, v in environment.items())} "$(command -v chroot)" {root} "$@"; }}
"""
    return ev.run(["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child",
                   "sh", "-c", prologue + script], timeout=timeout)


def empty_root(directory, command):
    """A root with the command in it, /proc and /tmp; nothing else."""
    root = pathlib.Path(directory)
    for name in ("proc", "tmp"):
        (root / name).mkdir()
    shutil.copy(command, root / "everstep")
    return root
