# tests: jobs started and ended at random moments leave nothing behind: no process, no shared memory,
# no socket, no half-written file.
#   cleanup_test.py [ROUNDS [SEED]]
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev
from hosts import TwoHosts

# A network namespace of its own: the abstract sockets seen are those of this test's jobs alone.
if TwoHosts.available() and not os.environ.get("CLEANUP_TEST_ALONE"):
    os.environ["CLEANUP_TEST_ALONE"] = "1"
    os.execvp("unshare", ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
                          sys.executable, *sys.argv])

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)


def settle(check, seconds=3.0):
    """The last value of check(), waiting for it to become false: the kernel tidies up in its own time."""
    deadline = time.monotonic() + seconds
    while True:
        left = check()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


class Cleanup(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.data = ev.mnist_data(self.scratch.name)
        self.before_sockets = ev.abstract_sockets()
        self.before_shm = set(os.listdir("/dev/shm"))
        self.before_files = set(os.listdir(self.scratch.name))

    def tearDown(self):
        for pid in ev.processes_of(self.scratch.name):
            os.kill(pid, signal.SIGKILL)
        self.scratch.cleanup()

    def check_nothing_left(self, what):
        left = settle(lambda: ev.processes_of(self.scratch.name))
        commands = [pathlib.Path(f"/proc/{p}/cmdline").read_bytes().replace(b"\0", b" ") for p in left]
        self.assertFalse(left, f"{what}: processes left: {commands}")
        self.assertFalse(settle(lambda: ev.abstract_sockets() - self.before_sockets), what)
        self.assertFalse(set(os.listdir("/dev/shm")) - self.before_shm, what)
        # Beside the data an index may be kept; the job directory is looked at by who made it.
        new = {f for f in set(os.listdir(self.scratch.name)) - self.before_files
               if f != "job" and not f.endswith(".evindex")}
        self.assertFalse(new, f"{what}: files left")

    def one(self, dice, i):
        job = pathlib.Path(self.scratch.name) / "job"
        shell = dice.random() < 0.3
        program = (["sh", "-c", "sleep 30 & sleep 30"] if shell else
                   [ev.MNIST, "--data", str(self.data), "--epochs", "1", "--checkpoint-every-steps", "20"])
        workers = dice.choice(["1", "2", "3"])
        process = subprocess.Popen([ev.EVERSTEP, "run", "-n", workers, "--grace-seconds", "10",
                                    "--job-dir", str(job), "--", *program],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        how = dice.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        after = dice.uniform(0, 0.7 if shell else 2.0)
        what = f"round {i}: {how.name} after {after:.3f} s, {workers} workers, {program[0]}"
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
        try:
            out = process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"{what}: did not end within 20 s\n{process.communicate()[0]}")
        # 0: the job was done before the signal came; -2, -15: it came before anything was set up.
        allowed = {0, 143, -how} if how != signal.SIGKILL else {0, -signal.SIGKILL}
        self.assertIn(process.returncode, allowed, f"{what}\n{out}")
        self.check_nothing_left(what)
        if how != signal.SIGKILL and job.exists():
            half = [p for p in job.rglob("*") if p.name.startswith(".tmp")]
            self.assertFalse(half, f"{what}: half-written files")
        shutil.rmtree(job, ignore_errors=True)
        return process.returncode

    def test_rounds(self):
        dice = random.Random(SEED)
        print(f"{ROUNDS} rounds, seed {SEED}", file=sys.stderr)
        codes = {}
        for i in range(ROUNDS):
            code = self.one(dice, i)
            codes[code] = codes.get(code, 0) + 1
        print(f"exit codes: {codes}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
