# tests: what the tests that start real programs share.
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("EVERSTEP_BIN", ROOT / "build" / "bin"))
EVERSTEP = str(BIN / "everstep")
MNIST = str(BIN / "mnist")


def run(command, timeout=120, **keywords):
    """Runs to the end; the result has returncode, stdout, stderr."""
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout,
                          errors="replace", **keywords)


def mnist_data(directory):
    """The MNIST training and test set as TFRecord files, made by the command under test."""
    directory = pathlib.Path(directory)
    for source, name in (("train", "train"), ("t10k", "test")):
        result = run([EVERSTEP, "records", "import", "idx",
                      "--images", ROOT / f"examples/mnist/data/{source}-images-idx3-ubyte.gz",
                      "--labels", ROOT / f"examples/mnist/data/{source}-labels-idx1-ubyte.gz",
                      "--output", directory / f"{name}.tfrecord"])
        if result.returncode != 0:
            raise AssertionError(result.stderr)
    return directory


def digest(job_dir):
    result = run([EVERSTEP, "checkpoint", "digest", job_dir])
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    if not re.fullmatch(r"[0-9a-f]{32}\n", result.stdout):
        raise AssertionError(f"not one hex line: {result.stdout!r}")
    return result.stdout.strip()


def mentions(pid, marker):
    """Whether a living process's environment or arguments have the bytes `marker` in them."""
    for part in ("environ", "cmdline"):
        try:
            if marker in pathlib.Path(f"/proc/{pid}/{part}").read_bytes():
                return True
        except OSError:
            pass
    return False


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processes_of(marker):
    """Living processes other than this one that carry `marker`."""
    marker = os.fsencode(marker)
    return [int(p) for p in os.listdir("/proc")
            if p.isdigit() and int(p) != os.getpid() and is_alive(p) and mentions(p, marker)]


def kill_all(marker):
    """SIGKILLs every process that carries `marker`, until none is left."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = processes_of(marker)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.005)
    raise AssertionError(f"processes that do not die: {left}")


def is_running(pid, program):
    """Whether the process executes this file."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False


def abstract_sockets():
    """Names of all abstract unix sockets of ours that exist now."""
    names = set()
    for line in pathlib.Path("/proc/net/unix").read_text(errors="replace").splitlines():
        name = line.split()[-1]
        if name.startswith("@everstep"):
            names.add(name)
    return names


class Scratch(tempfile.TemporaryDirectory):
    """A directory whose path marks every process that is started for it."""

    def __init__(self):
        super().__init__(prefix="everstep-test-")
