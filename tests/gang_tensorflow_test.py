# tests: real TensorFlow under `everstep run`: scripts that know nothing of it (examples/keras) survive kills, stops
# and the loss of a parameter server. `--full` besides: three minutes of silence with the limits as users have them.
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest

import everstep as ev
import tensorflow_venv

KERAS = ev.ROOT / "examples" / "keras"
SILENT = ev.ROOT / "tests" / "programs" / "keras_silent.py"
FULL = "--full" in sys.argv
ENVIRONMENT = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="2")
LINE = re.compile(r"^(?:worker:0|chief:0|chief) \| ([0-9.]+) (?:epoch (\d+) )?step (\d+) ", re.M)
PER_EPOCH = 50  # steps of 128 in 6400 images


class Gang(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.addCleanup(self.scratch.cleanup)
        self.addCleanup(lambda: ev.kill_all(self.scratch.name))
        self.dir = pathlib.Path(self.scratch.name)
        self.job, self.backup = self.dir / "job", self.dir / "backup"

    def start(self, *words, environment=ENVIRONMENT):
        """Starts `everstep run`; `words`: its options, `--` and the script with its arguments."""
        at = words.index("--")
        command = [ev.EVERSTEP, "run", "--job-dir", self.job, *words[:at], "--", tensorflow_venv.PYTHON, *words[at + 1:]]
        output = open(self.dir / "output", "w")
        self.addCleanup(output.close)
        self.began = time.time()
        self.process = subprocess.Popen([str(c) for c in command], stdout=output, stderr=subprocess.STDOUT,
                                        cwd=self.dir, env=environment)
        self.addCleanup(lambda: self.process.poll() is None and self.process.kill())

    def said(self):
        return (self.dir / "output").read_text(errors="replace")

    def steps(self):
        """(when, how many are done by then) by the first trainer's own lines."""
        return [(float(when), int(epoch or 0) * PER_EPOCH + int(step)) for when, epoch, step in LINE.findall(self.said())]

    def wait_for(self, what, seconds=90):
        """`what` until it is true; its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = what()
            if value:
                return value
            self.assertIsNone(self.process.poll(), f"it has ended:\n{self.said()}")
            self.assertLess(time.monotonic(), deadline, f"not in {seconds} s:\n{self.said()}")
            time.sleep(0.02)

    def wait_for_step(self, step, after=0.0, seconds=90):
        """The first line after `after` of a step that is at least `step`."""
        return self.wait_for(lambda: next((s for s in self.steps() if s[0] > after and s[1] >= step), None), seconds)

    def ends(self, seconds):
        """The exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"it goes on:\n{self.said()}")

    def ends_well(self, seconds=90):
        self.assertEqual(self.ends(seconds), 0, self.said())
        self.assertEqual(ev.processes_of(self.scratch.name), [])

    def tasks(self):
        """{"worker:1": (pid, its TF_CONFIG)} of the processes that live now."""
        found = {}
        for pid in ev.processes_of(self.scratch.name):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                config = next((json.loads(v[10:]) for v in environment if v.startswith(b"TF_CONFIG=")), None)
            except OSError:
                continue
            if config:
                found[f"{config['task']['type']}:{config['task']['index']}"] = (pid, config)
        return found

    def records(self, *kinds):
        path = self.job / "incidents.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [r for r in lines if not kinds or r["kind"] in kinds]


class Mnist(Gang):
    """examples/keras/mnist_multiworker.py on two workers."""

    def start_mnist(self, *options, epochs=2, delay=0.05, script=(KERAS / "mnist_multiworker.py",), **keywords):
        self.start("--gang", "-n", "2", *options, "--", *script, "--backup", self.backup, "--images", "6400",
                   "--epochs", epochs, "--save-freq", "10", "--log-every", "1", "--delay", delay, **keywords)


class Workers(Mnist):
    def cold_start(self):
        """Seconds from nothing to the first step."""
        self.job, self.backup = self.dir / "another", self.dir / "another-backup"
        self.start_mnist()
        seconds = self.wait_for_step(0, after=self.began)[0] - self.began
        self.process.terminate()
        self.assertEqual(self.ends(60), 143, self.said())
        return seconds

    def test_ten_kills_in_mid_epoch_and_each_time_it_goes_on_from_its_backup_as_fast_as_it_starts(self):
        # Three failures without a checkpoint would end it: Everstep has seen the backups, too.
        self.start_mnist("--max-restarts", "3", epochs=5)
        cold = self.wait_for_step(0)[0] - self.began
        back, killed_at = [], 0.0
        for kill in range(10):
            first = self.wait_for_step(0, after=killed_at)[1]
            self.wait_for_step(first + 14, after=killed_at)  # a backup has been made
            victim = f"worker:{kill % 2}"
            killed_at = time.time()
            os.kill(self.tasks()[victim][0], signal.SIGKILL)
            when, step = self.wait_for_step(0, after=killed_at + 0.5)
            last = max(s for t, s in self.steps() if t <= killed_at + 0.5)
            back.append(when - killed_at)
            self.assertLessEqual(last - step, 10, f"more was done again than since the last backup:\n{self.said()}")
            self.assertGreater(step, first)
        self.ends_well()
        failed, said = self.records("worker_failed"), self.said()
        recovered = self.records("recovered")
        cold = max(cold, self.cold_start())  # before and after: the machine is not always the same
        print(f"cold start to the first step {cold:.1f} s; kill to the first new step "
              f"{' '.join(f'{s:.1f}' for s in back)} s, of which waiting by order "
              f"{' '.join(format(r['back_off_seconds'], '.1f') for r in failed)} s")
        self.assertLessEqual(statistics.median(back), cold + 5)  # one alone may have met a busy machine
        for task in (0, 1):
            self.assertIn(f"worker:{task} is done: accuracy 0.9", said)
        self.assertEqual([(r["task"], r["signal"]) for r in failed],
                         [(f"worker:{kill % 2}", signal.SIGKILL) for kill in range(10)])
        self.assertEqual(len(recovered), 10)

    def test_a_stopped_worker_is_found_and_named_and_the_job_completes(self):
        self.start_mnist()
        self.wait_for_step(15)
        stopped_at = time.time()
        os.kill(self.tasks()["worker:1"][0], signal.SIGSTOP)
        when, step = self.wait_for_step(0, after=stopped_at + 2)
        print(f"stop to the first new step {when - stopped_at:.1f} s")
        self.assertGreater(step, 0)
        self.ends_well()
        hung = self.records("worker_hung")
        self.assertEqual([r["task"] for r in hung], ["worker:1"], hung)
        [hung] = hung
        self.assertEqual(hung["evidence"], "strong")
        self.assertRegex(hung["cause"], r"^worker:1 .*stopped")
        self.assertIn(hung["cause"], self.said())

    def test_keras_3_is_told_the_cure_and_ends_in_its_own_words_at_once(self):
        lines = (KERAS / "mnist_multiworker.py").read_text().splitlines(keepends=True)
        script = self.dir / "train.py"
        script.write_text("".join(line for line in lines if "TF_USE_LEGACY_KERAS" not in line))
        cure = r"Keras 3\S+ .*fails: .*set TF_USE_LEGACY_KERAS=1"
        self.start_mnist(script=(script, "--data", ev.ROOT / "examples" / "mnist" / "data"))
        self.assertEqual(self.ends(60), 1, self.said())
        self.assertRegex(self.said(), cure)
        self.assertIn("PerReplica", self.said())
        [failed] = self.records("worker_failed")
        self.assertEqual(failed["action"], "end")


class Silence(Mnist):
    """A long step in which nothing is printed or written."""

    def run_silent(self, seconds, heartbeat, *options):
        self.start_mnist(*options, epochs=1, script=(SILENT, 20, seconds, heartbeat))
        self.ends_well(seconds + 90)

    def warned(self):
        return self.records("worker_hung")

    def test_it_is_warned_about_and_goes_on(self):
        self.run_silent(20, "none", "--hang-floor", "5")
        self.assertEqual([r["evidence"] for r in self.warned()], ["weak"], self.said())
        self.assertEqual(self.records("worker_failed"), [])

    def test_it_is_not_even_warned_about_when_heartbeats_said_how_long_it_takes(self):
        self.run_silent(20, "expect", "--hang-floor", "5")
        self.assertEqual(self.warned(), [], self.said())

    @unittest.skipUnless(FULL, "three minutes each")
    def test_three_minutes_are_warned_about_with_the_limits_that_users_have(self):
        self.run_silent(180, "none")
        self.assertEqual([r["evidence"] for r in self.warned()], ["weak"], self.said())
        self.assertEqual(self.records("worker_failed"), [])

    @unittest.skipUnless(FULL, "three minutes each")
    def test_three_minutes_between_heartbeats_are_no_silence(self):
        self.run_silent(180, "callback")
        self.assertEqual(self.warned(), [], self.said())


class ParameterServers(Gang):
    def test_it_survives_a_killed_worker_and_a_killed_ps(self):
        self.start("--chief", "1", "--workers", "2", "--ps", "1", "--evaluator", "1", "--", KERAS / "mnist_parameter_server.py",
                   "--checkpoints", self.dir / "checkpoints", "--images", "6000", "--steps", "600", "--every", "10",
                   "--delay", "0.3")
        self.wait_for_step(30)
        before = self.tasks()
        os.kill(before["worker:1"][0], signal.SIGKILL)
        again = self.wait_for(lambda: self.other("worker:1", before))
        self.assertEqual(again[1], before["worker:1"][1], "at the same address, in the same cluster")
        self.wait_for_step(self.steps()[-1][1] + 20)
        for task in ("chief:0", "worker:0", "ps:0", "evaluator:0"):
            self.assertEqual(self.tasks()[task][0], before[task][0], task)

        before, killed_at = self.tasks(), time.time()
        os.kill(before["ps:0"][0], signal.SIGKILL)
        when, step = self.wait_for_step(0, after=killed_at + 1)
        print(f"loss of the ps to the first new step {when - killed_at:.1f} s")
        self.assertGreater(step, 50)  # from its checkpoint
        now = self.tasks()
        for task in ("ps:0", "chief:0"):
            self.assertNotEqual(now[task][0], before[task][0], task)
        for task in ("worker:0", "worker:1"):
            self.assertEqual(now[task][0], before[task][0], task)
        self.ends_well()
        self.assertIn("the chief is done", self.said())
        self.assertRegex(self.said(), r"evaluator: step \d+: 0\.\d+ right")
        self.assertEqual([r["task"] for r in self.records("worker_failed")], ["worker:1", "ps:0"])

    def other(self, task, before):
        """The task's process, once it is another."""
        now = self.tasks().get(task)
        return now if now and now[0] != before[task][0] else None


class Heartbeats(unittest.TestCase):
    """The callback of python/everstep_heartbeat.py in real Keras, 2 and 3."""
    PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
import everstep_heartbeat, numpy as np, tensorflow as tf
print(tf.keras.Model.__module__.split('.')[0])
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("adam", "mse", steps_per_execution=int(sys.argv[2]))
x = np.zeros((80, 4), "float32"); y = np.zeros((80, 1), "float32")
model.fit(x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0, callbacks=[everstep_heartbeat.keras_callback()])
model.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[everstep_heartbeat.keras_callback()])
"""

    def heard(self, legacy, at_once):
        """The Keras that the program had, and what it sent."""
        lines = []
        with ev.Scratch() as scratch, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(scratch + "/heartbeat")
            reader = threading.Thread(target=lambda: lines.extend(iter(lambda: receiver.recv(512).decode(), "end")))
            reader.start()
            try:
                result = ev.run([tensorflow_venv.PYTHON, "-c", self.PROGRAM, ev.ROOT / "python", at_once],
                                env=dict(ENVIRONMENT, TF_USE_LEGACY_KERAS=legacy, EVERSTEP_HEARTBEAT=scratch + "/heartbeat"))
            finally:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                    sender.sendto(b"end", scratch + "/heartbeat")
                reader.join()
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip(), lines

    def test_steps_are_counted_over_epochs_and_calls_of_fit(self):
        for legacy, module, at_once in (("1", "tf_keras", 1), ("0", "keras", 1), ("0", "keras", 5)):
            with self.subTest(module=module, at_once=at_once):
                used, lines = self.heard(legacy, at_once)
                self.assertEqual(used, module)
                matches = [re.fullmatch(r"everstep1 step=(\d+) phase=train", line) for line in lines]
                self.assertEqual([int(m[1]) for m in matches if m], list(range(at_once, 31, at_once)))
                self.assertIn("everstep1 step=10 phase=evaluate", lines)
                self.assertEqual(lines[0], "everstep1 phase=train")


if __name__ == "__main__":
    tensorflow_venv.python()
    unittest.main(verbosity=2, argv=[a for a in sys.argv if a != "--full"])
