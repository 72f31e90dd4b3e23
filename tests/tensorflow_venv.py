# tests: the Python that has real TensorFlow: a virtual environment in the build directory, made once from the package
# index. The tests that need it are skipped only when it cannot be had.
import contextlib
import fcntl
import shutil
import subprocess
import sys

import everstep as ev

TENSORFLOW = "tensorflow-cpu>=2.15,<3"
VENV = ev.BIN.parent / "tensorflow-venv"
PYTHON = VENV / "bin" / "python"
READY = VENV / "everstep-ready"  # written last: a broken install is begun anew
INSTALL_LIMIT = 900  # seconds
SKIPPED = 77         # what ctest takes for it


def install(*arguments):
    """Why pip could not do it; None when it could."""
    try:
        pip = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-compile", "--retries=2",
                              "--only-binary=:all:", *arguments],
                             capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except subprocess.TimeoutExpired:
        return f"pip took over {INSTALL_LIMIT} s"
    return pip.stderr.strip() if pip.returncode != 0 else None


def has(module):
    return subprocess.run([PYTHON, "-c", f"import importlib.util as u; raise SystemExit(u.find_spec('{module}') is None)"],
                          capture_output=True).returncode == 0


def tf_keras():
    """The package of the same minor version as TensorFlow; it would bring the other TensorFlow of that version, the
    one with CUDA, hence without what it asks for."""
    version = subprocess.run([PYTHON, "-c", "import importlib.metadata as m; print(m.version('tensorflow-cpu'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    return "--no-deps", f"tf-keras=={'.'.join(version.split('.')[:2])}.*"


def why_not():
    """Makes the environment; None, or why it cannot be had."""
    if not READY.exists() or subprocess.run([PYTHON, "--version"], capture_output=True).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        why = install(TENSORFLOW)
        if why is not None:
            shutil.rmtree(VENV, ignore_errors=True)
            return f"{TENSORFLOW} cannot be had: {why}"
        READY.write_text(TENSORFLOW)
    if not has("tf_keras"):
        why = install(*tf_keras())
        if why is not None:
            return f"tf-keras cannot be had: {why}"
    return None


@contextlib.contextmanager
def alone():
    """One test at a time makes it."""
    VENV.parent.mkdir(parents=True, exist_ok=True)
    with open(VENV.parent / "tensorflow-venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def python():
    """The interpreter; where there can be none the test ends here, as skipped."""
    with alone():
        why = why_not()
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    return PYTHON
