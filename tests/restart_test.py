# tests: promise 1 for whole jobs: whatever is killed when, the job run again ends with the weights of
# the undisturbed run, on any number of workers.
#   restart_test.py [KILLS_OF_ALL [KILLS_OF_ONE [SEED]]]
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev

ALL = int(sys.argv[1]) if len(sys.argv) > 1 else 100
ONE = int(sys.argv[2]) if len(sys.argv) > 2 else 50
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
EPOCHS = 4
EVERY = 20  # steps between checkpoints


class Restart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.data = ev.mnist_data(cls.scratch.name)
        cls.program = ["--", ev.MNIST, "--data", str(cls.data), "--epochs", str(EPOCHS)]
        began = time.monotonic()
        job = pathlib.Path(cls.scratch.name) / "undisturbed"
        result = ev.run([ev.EVERSTEP, "run", "-n", "2", "--replicas", "4", "--seed", "7", "--job-dir", job,
                         "--checkpoint-every-steps", EVERY, *cls.program])
        assert result.returncode == 0, result.stderr
        cls.whole_run = time.monotonic() - began
        cls.wanted = ev.digest(job)
        print(f"seed {SEED}, an undisturbed run takes {cls.whole_run:.1f} s", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        ev.kill_all(cls.scratch.name)
        cls.scratch.cleanup()

    def start(self, job, workers, resume):
        where = ["--resume", str(job)] if resume else ["--job-dir", str(job), "--replicas", "4", "--seed", "7"]
        log = open(pathlib.Path(self.scratch.name) / "output", "w+")
        process = subprocess.Popen([ev.EVERSTEP, "run", "-n", str(workers), *where,
                                    "--checkpoint-every-steps", str(EVERY), *self.program],
                                   stdout=log, stderr=subprocess.STDOUT, text=True)
        return process, log

    def output(self, log):
        log.seek(0)
        return log.read()

    def wait_until(self, process, check, seconds):
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline and not check():
            time.sleep(0.001)

    def strike(self, process, log, job, dice):
        """Waits for a random moment of a random kind, then kills everything at once; what it was."""
        checkpoints = job / "checkpoints"
        half_written = lambda: checkpoints.is_dir() and any(
            name.startswith(".tmp-") for name in os.listdir(checkpoints))
        moment = dice.choice(["any", "any", "start", "restore", "commit", "commit", "end"])
        if moment == "any":
            self.wait_until(process, lambda: False, dice.uniform(0, self.whole_run))
        elif moment == "start":
            self.wait_until(process, lambda: False, dice.uniform(0, 0.2))
        elif moment == "restore":
            self.wait_until(process, lambda: False, dice.uniform(0.1, 0.6))
        elif moment == "commit":
            self.wait_until(process, lambda: False, dice.uniform(0.3, 1.2))
            self.wait_until(process, half_written, 3)
            time.sleep(dice.choice([0, 0, 0.001, 0.003]))
        else:
            self.wait_until(process, lambda: f"Epoch {EPOCHS}/" in self.output(log), 30)
            time.sleep(dice.uniform(0, 0.2))
        ev.kill_all(self.scratch.name)
        process.wait(10)
        return moment

    def test_everything_killed_and_run_again_with_another_number_of_workers(self):
        dice = random.Random(SEED)
        kills, jobs, moments, slowest = 0, 0, {}, 0.0
        while kills < ALL:
            job = pathlib.Path(self.scratch.name) / f"job{jobs}"
            jobs += 1
            workers, life = dice.randint(1, 4), 0
            while True:
                # The last kill of the budget is followed by a run that is left alone.
                spare = kills >= ALL or life >= 12
                resume = (job / "resolved.json").exists()
                process, log = self.start(job, workers, resume)
                began = time.monotonic()
                if not spare:
                    moment = self.strike(process, log, job, dice)
                    if process.returncode == -signal.SIGKILL:
                        kills += 1
                        moments[moment] = moments.get(moment, 0) + 1
                else:
                    process.wait(90)
                text = self.output(log)
                log.close()
                slowest = max(slowest, time.monotonic() - began)
                life += 1
                if process.returncode == 0:
                    break
                self.assertEqual(process.returncode, -signal.SIGKILL, f"job {jobs}, life {life}:\n{text}")
                workers = dice.choice([n for n in (1, 2, 3, 4) if n != workers])
            self.assertEqual(ev.digest(job), self.wanted, f"job {jobs} after {life} lives, seed {SEED}")
            self.assertEqual(self.run_again(job).returncode, 0, "a finished job exits 0 at once")
            verified = ev.run([ev.EVERSTEP, "checkpoint", "verify", job])
            self.assertEqual(verified.returncode, 0, verified.stdout)
        print(f"{kills} kills of everything in {jobs} jobs, {moments}; slowest run {slowest:.1f} s",
              file=sys.stderr)

    def run_again(self, job):
        return ev.run([ev.EVERSTEP, "run", "--resume", job, *self.program], timeout=10)

    def test_damaged_checkpoints_are_passed_over_and_put_on_record(self):
        job = pathlib.Path(self.scratch.name) / "damaged"
        process, log = self.start(job, 2, False)
        checkpoints = lambda: sorted((job / "checkpoints").glob("step-*"), key=lambda p: int(p.name.split("-")[1]))
        self.wait_until(process, lambda: len(checkpoints()) >= 4, 20)
        ev.kill_all(self.scratch.name)
        process.wait()
        newest, second, third = checkpoints()[-1], checkpoints()[-2], checkpoints()[-3]
        data = bytearray((newest / "state.data-00001-of-00002").read_bytes())
        data[len(data) // 2] ^= 1
        (newest / "state.data-00001-of-00002").write_bytes(data)
        (second / "state.data-00000-of-00002").unlink()
        process, log = self.start(job, 3, True)
        self.assertEqual(process.wait(60), 0, self.output(log))
        self.assertEqual(ev.digest(job), self.wanted)
        records = [json.loads(line) for line in (job / "incidents.jsonl").read_text().splitlines()]
        rejected = {r["step"]: r["cause"] for r in records if r["kind"] == "checkpoint_rejected"}
        step = lambda path: int(path.name.split("-")[1])
        self.assertEqual(set(rejected), {step(newest), step(second)})
        self.assertIn("state.data-00001-of-00002", rejected[step(newest)])
        self.assertIn("state.data-00000-of-00002", rejected[step(second)])
        training = [r["step"] for r in records if r["kind"] == "training"]
        self.assertEqual(training[-1], step(third))

    def test_when_no_checkpoint_is_good_the_job_does_not_begin_anew_by_itself(self):
        job = pathlib.Path(self.scratch.name) / "rotten"
        process, log = self.start(job, 2, False)
        self.wait_until(process, lambda: list((job / "checkpoints").glob("step-*")), 20)
        ev.kill_all(self.scratch.name)
        process.wait()
        for index in job.glob("checkpoints/step-*/state.index"):
            index.write_bytes(b"")
        process, log = self.start(job, 2, True)
        self.assertEqual(process.wait(30), 65, self.output(log))
        self.assertIn("state.index", self.output(log))

    def test_other_batches_or_fewer_epochs_than_were_trained_are_refused(self):
        job = pathlib.Path(self.scratch.name) / "other"
        run = lambda where, *arguments: ev.run([ev.EVERSTEP, "run", "-n", "2", *where, *self.program[:-1], *arguments])
        self.assertEqual(run(["--job-dir", job], "2").returncode, 0)
        before = ev.digest(job)
        for arguments, words in ((("4", "--batch-size", "100"), "another batch size"),
                                 (("1",), "beyond the 235 steps")):
            result = run(["--resume", job], *arguments)
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(ev.digest(job), before)
        self.assertEqual(run(["--resume", job], "3").returncode, 0)
        self.assertNotEqual(ev.digest(job), before)

    def test_single_workers_killed(self):
        dice = random.Random(SEED + 1)
        kills, jobs, restarts = 0, 0, 0
        while kills < ONE:
            job = pathlib.Path(self.scratch.name) / f"one{jobs}"
            jobs += 1
            workers = dice.randint(2, 4)
            process, log = self.start(job, workers, False)
            killed = 0
            while process.poll() is None and kills < ONE:
                pause = dice.choice([dice.uniform(0, 0.3), dice.uniform(0.3, 2.5)])
                self.wait_until(process, lambda: False, pause)
                if dice.random() < 0.1:  # when training is done, or nearly
                    self.wait_until(process, lambda: f"Epoch {EPOCHS}/" in self.output(log), 20)
                    self.wait_until(process, lambda: False, dice.uniform(0, 0.6))
                alive = [p for p in ev.processes_of(str(job)) if ev.is_running(p, ev.MNIST)]
                if not alive:
                    continue
                os.kill(dice.choice(alive), signal.SIGKILL)
                kills += 1
                killed += 1
            process.wait(120)
            text = self.output(log)
            log.close()
            # Ten deaths without a checkpoint between them are the end of it; then it is run again.
            if process.returncode != 0 and "--max-restarts allows" in text:
                self.assertEqual(self.run_again_to_the_end(job), 0)
            else:
                self.assertEqual(process.returncode, 0, f"after {killed} kills, seed {SEED}:\n{text}")
            self.assertEqual(ev.digest(job), self.wanted, f"job {jobs}, seed {SEED}\n{text}")
            restarts += len(re.findall(r"all restart from", text))
        self.assertTrue(restarts > 0 or ONE == 0)
        print(f"{kills} kills of one worker in {jobs} jobs, {restarts} restarts", file=sys.stderr)

    def run_again_to_the_end(self, job):
        return ev.run([ev.EVERSTEP, "run", "--resume", job, *self.program], timeout=120).returncode


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
