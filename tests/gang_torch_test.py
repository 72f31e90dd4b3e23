# tests: real torch under `everstep run`: examples/torch/mnist_ddp.py, which knows nothing of it, survives kills and
# a stop. It wants Debian's python3-torch; no other torch is looked for.
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import everstep as ev

PYTHON = "/usr/bin/python3"
SCRIPT = ev.ROOT / "examples" / "torch" / "mnist_ddp.py"
LINE = re.compile(r"^worker:0 +\| ([0-9.]+) epoch \d+ step (\d+) loss", re.M)


class Torch(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.addCleanup(self.scratch.cleanup)
        self.addCleanup(lambda: ev.kill_all(self.scratch.name))
        self.dir = pathlib.Path(self.scratch.name)
        self.job = self.dir / "job"

    def start(self, *options):
        output = open(self.dir / "output", "w")
        self.addCleanup(output.close)
        self.process = subprocess.Popen(
            [str(c) for c in (ev.EVERSTEP, "run", "--gang", "-n", "2", "--job-dir", self.job, *options, "--", PYTHON,
                              SCRIPT, "--checkpoint", self.dir / "checkpoint.pt", "--images", "6400", "--epochs", "4",
                              "--save-every", "10", "--log-every", "1", "--delay", "0.03")],
            stdout=output, stderr=subprocess.STDOUT, cwd=self.dir)
        self.addCleanup(lambda: self.process.poll() is None and self.process.kill())

    def said(self):
        return (self.dir / "output").read_text(errors="replace")

    def wait_for_step(self, step, after=0.0, seconds=60):
        """The first line after `after` of a step that is at least `step`."""
        deadline = time.monotonic() + seconds
        while True:
            for when, number in LINE.findall(self.said()):
                if float(when) > after and int(number) >= step:
                    return float(when), int(number)
            self.assertIsNone(self.process.poll(), f"it has ended:\n{self.said()}")
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.02)

    def rank(self, rank):
        marker = b"\0RANK=%d\0" % rank
        [pid] = [p for p in ev.processes_of(self.scratch.name)
                 if marker in b"\0" + pathlib.Path(f"/proc/{p}/environ").read_bytes()]
        return pid

    def ends_well(self):
        self.assertEqual(self.process.wait(60), 0, self.said())
        self.assertRegex(self.said(), r"done: accuracy 0\.9")
        self.assertEqual(ev.processes_of(self.scratch.name), [])

    def records(self, *kinds):
        lines = [json.loads(line) for line in (self.job / "incidents.jsonl").read_text().splitlines()]
        return [r for r in lines if r["kind"] in kinds]

    def test_a_killed_process_restarts_both_and_they_go_on_from_the_checkpoint(self):
        self.start("--max-restarts", "2")
        for kill in range(4):
            before = self.wait_for_step(15 + 35 * kill)
            killed_at = time.time()
            os.kill(self.rank(kill % 2), signal.SIGKILL)
            when, step = self.wait_for_step(0, after=killed_at + 0.3)
            print(f"kill to the first new step {when - killed_at:.1f} s")
            self.assertGreater(step, before[1] - 10)
            self.assertEqual(step % 10, 1)  # saved after 10, 20, ...
        self.ends_well()
        self.assertEqual([(r["task"], r["signal"]) for r in self.records("worker_failed")],
                         [(f"worker:{kill % 2}", signal.SIGKILL) for kill in range(4)])

    def test_a_stopped_process_is_found_and_named_although_the_other_would_wait_for_half_an_hour(self):
        self.start()
        self.wait_for_step(25)
        os.kill(self.rank(1), signal.SIGSTOP)
        self.ends_well()
        [hung] = self.records("worker_hung")
        self.assertEqual(hung["task"], "worker:1")
        self.assertEqual(hung["evidence"], "strong")
        self.assertRegex(hung["cause"], r"^worker:1 .*stopped")


class Hook(unittest.TestCase):
    PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
import everstep_heartbeat, torch
model = torch.nn.Linear(2, 1)
before = float(model.weight[0, 0])
optimizer = everstep_heartbeat.torch_hook(torch.optim.SGD(model.parameters(), lr=0.1), done=100)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for _ in range(3):
    optimizer.zero_grad(); model(torch.ones(4, 2)).sum().backward(); optimizer.step(); scheduler.step()
print(f"{optimizer.param_groups[0]['lr']:.4f} {abs(before - float(model.weight[0, 0]) - 0.444) < 1e-4}")
"""

    def test_each_step_of_an_optimizer_with_a_scheduler_is_a_beat(self):
        with ev.Scratch() as scratch, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(scratch + "/heartbeat")
            result = ev.run([PYTHON, "-W", "error", "-c", self.PROGRAM, ev.ROOT / "python"],
                            env=dict(os.environ, EVERSTEP_HEARTBEAT=scratch + "/heartbeat"))
            self.assertEqual((result.returncode, result.stdout), (0, "0.0001 True\n"), result.stderr)
            receiver.setblocking(False)
            self.assertEqual([receiver.recv(512) for _ in range(3)],
                             [b"everstep1 step=%d phase=train" % n for n in (101, 102, 103)])


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch.distributed as d; d.is_gloo_available() or exit(1)"],
                      capture_output=True).returncode != 0:
        print("skipped: no torch: apt-get install python3-torch")
        sys.exit(77)
    unittest.main(verbosity=2)
