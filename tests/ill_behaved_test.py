# tests: programs that behave badly, under `everstep run --gang -n 2`: each test's name is what a person
# expects. Nothing of them is left behind, whatever they do.
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev

PYTHON = sys.executable
ILL_BEHAVED = str(ev.BIN / "ill_behaved")
MIB = 1 << 20


def memory_peak(pid):
    """The most memory that the process has had, in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


class IllBehaved(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.addCleanup(self.scratch.cleanup)
        self.dir = pathlib.Path(self.scratch.name)
        self.addCleanup(ev.kill_all, self.scratch.name)
        self.job = self.dir / "job"
        self.output = None

    def command(self, program, *options):
        return [str(c) for c in (ev.EVERSTEP, "run", "--gang", "-n", 2, "--job-dir", self.job, *options, "--",
                                 *program)]

    def run_gang(self, program, *options, timeout=60):
        """Ends by itself: its code; what it said is in self.text."""
        began = time.monotonic()
        result = ev.run(self.command(program, *options), timeout=timeout)
        self.took = time.monotonic() - began
        self.text = result.stdout + result.stderr
        return result.returncode

    def start(self, program, *options, stdout=None):
        self.output = open(self.dir / "output", "wb")
        self.addCleanup(self.output.close)
        process = subprocess.Popen(self.command(program, *options), stdout=stdout or self.output, stderr=self.output)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def said(self):
        return (self.dir / "output").read_bytes().decode(errors="replace")

    def logs(self, task):
        return sorted((self.job / "logs" / task).glob("*.log*"))

    # The scratch directory's path is in every program's arguments.
    def script(self, text):
        return "sh", "-c", text, self.dir

    def python(self, text):
        return PYTHON, "-c", text, self.dir

    def left(self):
        """The job's processes that still live; those that are ending get a moment."""
        deadline = time.monotonic() + 2
        while (left := ev.processes_of(self.scratch.name)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left


class Output(IllBehaved):
    def test_100_megabytes_a_second_pass_in_little_memory_and_the_log_is_cut(self):
        program = self.python("import os, time\n"
                              "block = (b'x' * 1023 + b'\\n') * 1024\n"
                              "end = time.monotonic() + 8\n"
                              "sent = 0\n"
                              "while time.monotonic() < end or sent < 600:\n"
                              "    for _ in range(10):\n"
                              "        view = memoryview(block)\n"
                              "        while view: view = view[os.write(1, view):]\n"
                              "        sent += 1\n"
                              "    time.sleep(0.01)\n")
        with open(os.devnull, "wb") as nothing:
            run = self.start(program, stdout=nothing)
            inner = None
            peak = 0
            while run.poll() is None:
                if inner is None:
                    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                    inner = int(children[0]) if children else None
                try:
                    peak = max(peak, memory_peak(inner), memory_peak(run.pid)) if inner else 0
                except (OSError, TypeError):
                    pass
                time.sleep(0.05)
        self.assertEqual(run.returncode, 0, self.said())
        self.assertGreater(peak, MIB)
        self.assertLess(peak, 150 * MIB)
        for task in ("worker_0", "worker_1"):
            logs = self.logs(task)
            self.assertEqual(len(logs), 2, logs)
            self.assertTrue(logs[1].name.endswith(".log.1"), logs)
            for log in logs:
                self.assertLessEqual(log.stat().st_size, 256 * MIB)

    def test_what_has_no_newline_is_shown_and_logged_all_the_same(self):
        program = self.python("import sys\n"
                              "for _ in range(200): sys.stdout.write('.' * 1000)\n"
                              "sys.stdout.write('end')\n")
        self.assertEqual(self.run_gang(program), 0, self.text)
        for worker in (0, 1):
            lines = [line for line in self.text.splitlines() if line.startswith(f"worker:{worker} | ")]
            shown = "".join(line.split(" | ", 1)[1] for line in lines)
            self.assertEqual(shown, "." * 200000 + "end")
            log, = self.logs(f"worker_{worker}")
            self.assertEqual(log.read_bytes(), b"." * 200000 + b"end")

    def test_binary_output_leaves_a_terminal_alone_and_is_whole_in_the_log(self):
        every = bytes(range(256))
        program = self.python(f"import os; os.write(1, b'before\\n' + bytes(range(256)) * 20 + b'\\n'"
                              f" + b'\\x1b[31mred\\x1b[2J\\x07\\x9b2J\\n' + b'after\\n')")
        terminal, child_end = pty.openpty()
        process = subprocess.Popen(self.command(program), stdin=child_end, stdout=child_end, stderr=child_end)
        os.close(child_end)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not part:
                break
            shown += part
        os.close(terminal)
        self.assertEqual(process.wait(timeout=20), 0, shown)
        lines = [line.rstrip(b"\r") for line in shown.split(b"\n")]
        lines = [line for line in lines if line.startswith(b"worker:")]
        for line in lines:
            self.assertFalse(re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", line), line)
            line.decode()  # nothing that is no UTF-8
        for worker in (b"worker:0", b"worker:1"):
            self.assertIn(worker + b" | before", lines)
            self.assertIn(worker + b" | red??2J", lines)
            self.assertIn(worker + b" | after", lines)
            self.assertIn(worker + b" | [bytes that are no text: they are in the log only]", lines)
        for task in ("worker_0", "worker_1"):
            log, = self.logs(task)
            self.assertEqual(log.read_bytes(), b"before\n" + every * 20 + b"\n\x1b[31mred\x1b[2J\x07\x9b2J\nafter\n")

    def test_one_that_closes_its_output_goes_on(self):
        program = self.python("import os, pathlib, sys, time\n"
                              "print('bye', flush=True)\n"
                              "os.close(1); os.close(2)\n"
                              "time.sleep(2)\n"
                              "pathlib.Path(sys.argv[1], 'done-' + os.environ['RANK']).touch()\n"
                              "os._exit(0)\n")
        self.assertEqual(self.run_gang(program), 0, self.text)
        self.assertGreater(self.took, 2)
        self.assertTrue((self.dir / "done-0").exists() and (self.dir / "done-1").exists())


class Processes(IllBehaved):
    def test_grandchildren_that_outlive_it_are_killed_and_that_is_said(self):
        # One in its group, one in a session of its own, one that has two parents gone.
        program = self.script('sleep 1111 & setsid sleep 2222 & (setsid sh -c "sleep 3333; :" "$0" &); sleep 4')
        self.assertEqual(self.run_gang(program), 0, self.text)
        for worker in (0, 1):
            line, = re.findall(rf"everstep: worker:{worker} has ended and left behind .*, now killed", self.text)
            for child in ("(sleep 1111)", "(sleep 2222)", "(sleep 3333)"):
                self.assertIn(child, line)
        self.assertEqual(self.left(), [])

    def test_those_of_one_member_are_gone_before_its_next_life(self):
        program = self.script('if mkdir "$0/once-$RANK" 2>/dev/null; then '
                              'setsid sh -c "echo \\$\\$ > $0/stray-$RANK; while :; do sleep 0.1; done" "$0" & '
                              'sleep 1; [ $RANK = 1 ] && kill -KILL $$; sleep 100; fi; '
                              'for rank in 0 1; do kill -0 $(cat "$0/stray-$rank") && echo alive; done; exit 0')
        self.assertEqual(self.run_gang(program), 0, self.text)
        self.assertEqual(len(list(self.dir.glob("stray-*"))), 2)
        self.assertNotIn("| alive", self.text)
        self.assertEqual(self.left(), [])

    def test_one_that_ignores_sigterm_is_killed_after_the_grace(self):
        program = self.python("import os, signal, sys, time\n"
                              "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                              "print('up', flush=True)\n"
                              "time.sleep(1)\n"
                              "if os.environ['RANK'] == '0': sys.exit(3)\n"
                              "time.sleep(1000)\n")
        self.assertEqual(self.run_gang(program, "--grace-seconds", 2), 3, self.text)
        self.assertGreater(self.took, 2.5)
        self.assertLess(self.took, 12)
        self.assertEqual(self.left(), [])

    def test_one_whose_main_thread_has_ended_still_runs(self):
        self.assertEqual(self.run_gang((ILL_BEHAVED, "zombie", "4")), 0, self.text)
        self.assertIn("worker:0 | going on", self.text)
        self.assertIn("worker:1 | going on", self.text)
        self.assertGreater(self.took, 4)

    def test_one_that_has_done_its_part_is_waited_by_for_the_others(self):
        program = self.script('[ $RANK = 0 ] && exit 0; sleep 3; echo finished')
        self.assertEqual(self.run_gang(program), 0, self.text)
        self.assertIn("worker:1 | finished", self.text)
        self.assertGreater(self.took, 3)

    def test_one_that_goes_into_the_background_is_told_to_stay_in_the_foreground(self):
        for how in ('setsid sleep 1111 &', '(setsid sh -c "sleep 2222; :" "$0" >/dev/null 2>&1 &)', 'sleep 3333 &'):
            with self.subTest(how):
                self.job = self.dir / f"job{len(list(self.dir.iterdir()))}"
                self.assertEqual(self.run_gang(self.script(how + "\nexit 0")), 78, self.text)
                self.assertIn("put itself into the background", self.text)
                self.assertIn("run it in the foreground", self.text)
                self.assertEqual(self.left(), [])

    def test_a_daemon_in_the_full_sense_is_found(self):
        program = self.python("import os, sys, time\n"
                              "if os.fork(): os._exit(0)\n"
                              "os.setsid()\n"
                              "if os.fork(): os._exit(0)\n"
                              "os.chdir('/')\n"
                              "for fd in (0, 1, 2): os.dup2(os.open(os.devnull, os.O_RDWR), fd)\n"
                              "time.sleep(1000)\n")
        self.assertEqual(self.run_gang(program), 78, self.text)
        self.assertIn("put itself into the background", self.text)
        self.assertEqual(self.left(), [])

    def test_one_that_hides_behind_ever_new_numbers_is_found(self):
        program = self.python("import os, time\n"
                              "if os.fork(): os._exit(0)\n"
                              "os.setsid()\n"
                              "for hop in range(200):\n"
                              "    if os.fork(): os._exit(0)\n"
                              "time.sleep(1000)\n")
        for attempt in range(5):
            with self.subTest(attempt=attempt):
                self.job = self.dir / f"job{attempt}"
                self.assertEqual(self.run_gang(program), 78, self.text)
                self.assertIn("put itself into the background", self.text)
                self.assertEqual(self.left(), [])

    def test_stopping_the_job_ends_all_that_ignores_it(self):
        program = self.script('trap "" TERM; setsid sh -c "trap \\"\\" TERM; while :; do sleep 0.1; done" "$0" & '
                              'echo up; while :; do sleep 0.1; done')
        run = self.start(program, "--grace-seconds", 1)
        deadline = time.monotonic() + 20
        while self.said().count(" | up") < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(timeout=20), 143, self.said())
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
