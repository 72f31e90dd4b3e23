# tests: SIGTERM in each phase: 143 within the grace, nothing left, and the job run again ends with the
# bits of the undisturbed run. And Ctrl-C at a terminal.
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev

GRACE = 10
EPOCHS = 3


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.dir = pathlib.Path(cls.scratch.name)
        cls.data = ev.mnist_data(cls.dir)
        cls.program = [ev.MNIST, "--data", str(cls.data), "--epochs", str(EPOCHS)]
        job = cls.dir / "undisturbed"
        result = ev.run(cls.command(job, workers=1))
        assert result.returncode == 0, result.stderr
        cls.wanted = ev.digest(job)
        cls.jobs = 0

    @classmethod
    def tearDownClass(cls):
        ev.kill_all(cls.scratch.name)
        cls.scratch.cleanup()

    @classmethod
    def command(cls, job, workers=2, resume=False, before=(), every=20):
        where = ["--resume", job] if resume else ["--job-dir", job, "--replicas", "4", "--seed", "7"]
        return [str(a) for a in [ev.EVERSTEP, "run", "-n", workers, *where, "--grace-seconds", GRACE,
                                 "--checkpoint-every-steps", every, "--", *before, *cls.program]]

    def setUp(self):
        Stop.jobs += 1
        self.job = self.dir / f"job{self.jobs}"
        self.half_before = set()

    def start(self, **keywords):
        self.log = open(self.dir / "output", "w+")
        return subprocess.Popen(self.command(self.job, **keywords), stdout=self.log,
                                stderr=subprocess.STDOUT, text=True)

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def wait(self, process, check, seconds=30):
        deadline = time.monotonic() + seconds
        while not check() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.002)

    def stop(self, process, allow_done=False):
        began = time.monotonic()
        process.terminate()
        code = process.wait(GRACE + 10)
        took = time.monotonic() - began
        self.assertIn(code, (143, 0) if allow_done else (143,), self.output())
        self.assertLess(took, GRACE, self.output())
        self.nothing_left()
        return took

    def nothing_left(self):
        deadline = time.monotonic() + 3
        while ev.processes_of(self.scratch.name) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(ev.processes_of(self.scratch.name), [])
        self.assertEqual(self.half_written() - self.half_before, set())

    def half_written(self):
        return set((self.job / "checkpoints").glob(".*"))

    def finish(self, workers):
        # One that was stopped before it began leaves nothing to go on with.
        begun = (self.job / "resolved.json").exists()
        result = ev.run(self.command(self.job, workers=workers, resume=begun))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(ev.digest(self.job), self.wanted)

    def test_at_the_start(self):
        for after in (0.02, 0.1, 0.2, 0.3, 0.4, 0.6):
            with self.subTest(after=after):
                self.setUp()
                process = self.start(workers=3)
                self.wait(process, (self.job / "resolved.json").exists)
                time.sleep(after)
                self.stop(process)
                self.finish(2)

    def test_before_the_program_has_said_hello(self):
        process = self.start(before=["sh", "-c", 'sleep 3; exec "$@"', "sh"])
        time.sleep(1)
        self.stop(process)
        self.finish(2)

    def test_in_a_step(self):
        for workers in (1, 2, 4):
            with self.subTest(workers=workers):
                self.setUp()
                process = self.start(workers=workers, every=100000)  # none but the one at the end
                self.wait(process, lambda: "Epoch 1/" in self.output())
                self.stop(process)
                kept = list((self.job / "checkpoints").glob("step-*"))
                self.assertEqual(len(kept), 1, "the step that was reached is kept")
                self.assertGreater(int(kept[0].name.split("-")[1]), 234)
                self.finish(5 - workers if workers < 4 else 2)

    def test_in_a_checkpoint(self):
        for _ in range(5):
            self.setUp()
            process = self.start(workers=2)
            checkpoints = self.job / "checkpoints"
            self.wait(process, lambda: checkpoints.is_dir() and
                      any(n.startswith(".tmp-") for n in os.listdir(checkpoints)))
            self.stop(process)
            self.finish(3)

    def test_in_evaluation(self):
        process = self.start(workers=2)
        self.wait(process, lambda: f"Epoch {EPOCHS}/" in self.output())
        self.stop(process, allow_done=True)
        self.finish(3)

    def test_in_restore(self):
        process = self.start(workers=2)
        self.wait(process, lambda: "Epoch 1/" in self.output())
        ev.kill_all(self.scratch.name)
        process.wait()
        # A run that is stopped before it has the directory does not touch it.
        self.half_before = self.half_written()
        for after in (0.05, 0.2, 0.3, 0.4, 0.5):
            with self.subTest(after=after):
                process = self.start(workers=3, resume=True)
                time.sleep(after)
                self.stop(process)
        self.finish(2)

    def test_while_it_waits_to_restart(self):
        process = self.start(workers=2)
        self.wait(process, lambda: "Epoch 1/" in self.output())
        worker = next(p for p in ev.processes_of(str(self.job)) if ev.is_running(p, ev.MNIST))
        os.kill(worker, signal.SIGKILL)
        self.wait(process, lambda: "all restart from" in self.output())
        # As of a worker that was killed in the middle of it.
        (self.job / "checkpoints" / ".checkpoint.tmp-0123456789abcdef").write_text("half")
        self.stop(process)
        self.finish(2)

    def test_control_c_at_a_terminal_is_one_clean_stop(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(ev.EVERSTEP, self.command(self.job))
        text = b""

        def read_until(word, seconds):
            nonlocal text
            deadline = time.monotonic() + seconds
            while word not in text and time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        text += os.read(terminal, 65536)
                    except OSError:
                        return

        read_until(b"Epoch 1/", 30)
        os.write(terminal, b"\x03")
        read_until(b"\0never", GRACE)  # until the terminal is closed
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
        shown = text.decode(errors="replace")
        self.assertEqual(status, 143, shown)
        self.assertEqual(shown.count("stopping on SIGINT"), 1, shown)
        self.assertEqual(shown.count("stopped (exit code 143)"), 1, shown)
        self.nothing_left()
        self.finish(3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
