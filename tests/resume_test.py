# tests: `everstep run --resume`, `status` and `report`: with programs of the shell, everything killed.
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest

import everstep as ev


def wait_for(check, seconds=10):
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Resume(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.dir = pathlib.Path(self.scratch.name)
        self.job = self.dir / "job"
        self.up = self.dir / "up"
        self.started = []

    def tearDown(self):
        self.kill_all()
        for process in self.started:
            process.kill()
            process.communicate()
        self.scratch.cleanup()

    def kill_all(self):
        """As when the power goes: no process sees another one die."""
        for pid in ev.processes_of(self.scratch.name):
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                pass
        ev.kill_all(self.scratch.name)

    def command(self, *options, script=None):
        program = ["--", "sh", "-c", script, str(self.dir)] if script is not None else []
        return [ev.EVERSTEP, "run", *map(str, options), *program]

    def run_job(self, *options, script=None, timeout=60):
        return ev.run(self.command(*options, script=script), timeout=timeout)

    def start(self, *options, script=None):
        process = subprocess.Popen(self.command(*options, script=script), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def start_long(self, *options):
        """A job whose program runs until it is ended."""
        self.up.unlink(missing_ok=True)
        process = self.start(*options, script=f"touch {self.up}; exec sleep 1000")
        self.assertTrue(wait_for(self.up.exists), "the program was not started")
        return process

    def look(self, verb, job=None):
        result = ev.run([ev.EVERSTEP, verb, "--json", job or self.job])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def kinds(self):
        lines = (self.job / "incidents.jsonl").read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]

    def assert_ends(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_a_job_whose_every_process_is_killed_goes_on_at_once(self):
        self.start_long("-n", 2, "--job-dir", self.job)
        self.assertEqual(self.look("status")["life"], "running")
        self.kill_all()
        self.assertEqual(self.look("status")["life"], "vanished")
        shown = ev.run([ev.EVERSTEP, "status", self.job]).stdout
        self.assertIn("vanished: last heard ", shown)
        self.assertIn(f"everstep run --resume {self.job}", shown)
        began = time.monotonic()
        result = self.run_job("--resume", self.job, "-n", 1, script="true")
        self.assert_ends(result, 0)
        self.assertLess(time.monotonic() - began, 4, "no waiting for one that is known to be gone")
        self.assertNotIn("waiting", result.stderr)
        self.assertIn("replicas     2 on 1 worker", result.stderr + result.stdout)
        kinds = self.kinds()
        self.assertEqual([kinds[0], kinds[1], kinds[2], kinds[-1]],
                         ["run_started", "run_vanished", "run_started", "run_ended"], kinds)
        report = self.look("report")
        self.assertEqual([run["state"] for run in report["runs"]], ["vanished", "ended"])
        self.assertEqual(report["incidents"][0]["record"]["kind"], "run_vanished")
        self.assertEqual(self.look("status")["life"], "ended")

    def test_a_second_run_waits_then_leaves_the_first_one_alone(self):
        first = self.start_long("-n", 1, "--job-dir", self.job, "--grace-seconds", 1)
        before = (self.job / "secret").read_bytes()
        result = self.run_job("--resume", self.job)
        self.assert_ends(result, 75, f"waiting up to 7 s for the run that holds {self.job} (pid ",
                         f"{self.job} is in use by the run of term 1 (pid ")
        self.assertEqual(result.stderr.count("waiting"), 1, result.stderr)
        self.assertEqual((self.job / "secret").read_bytes(), before)
        self.assertIsNone(first.poll())
        self.assertEqual(sorted(os.listdir(self.job / "terms")), ["1"])
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(20), 143)

    def test_a_second_run_takes_over_once_the_first_one_leaves(self):
        first = self.start_long("-n", 1, "--job-dir", self.job)
        second = self.start("--resume", self.job, script="true")
        time.sleep(1)
        self.assertIsNone(second.poll(), "it waits")
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(20), 143)
        out, err = second.communicate(timeout=20)
        self.assertEqual(second.returncode, 0, err)
        self.assertEqual(self.kinds()[-1], "run_ended")

    def test_waiting_ends_on_a_signal(self):
        self.start_long("-n", 1, "--job-dir", self.job)
        second = self.start("--resume", self.job)
        self.assertIn("waiting", second.stderr.readline())
        began = time.monotonic()
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(10), 143)
        self.assertLess(time.monotonic() - began, 5)

    def test_one_that_only_stopped_is_superseded_and_ends(self):
        first = self.start_long("-n", 1, "--job-dir", self.job, "--grace-seconds", 20)
        pid = json.loads((self.job / "terms/1").read_text())["pid"]
        started = self.job / "incidents.jsonl"  # not stopped in the middle of writing that
        self.assertTrue(wait_for(lambda: started.exists() and b"run_started" in started.read_bytes()))
        os.kill(pid, signal.SIGSTOP)
        result = self.run_job("--resume", self.job, script="true")
        self.assert_ends(result, 0, "waiting up to 20 s")
        ended = (self.job / "incidents.jsonl").read_bytes()
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(first.wait(30), 75)
        self.assertEqual((self.job / "incidents.jsonl").read_bytes(), ended,
                         "the directory is not its own any more")

    def test_a_job_that_is_done_exits_at_once_for_the_same_program(self):
        script = f"echo once >> {self.dir}/ran"
        self.assert_ends(self.run_job("--job-dir", self.job, script=script), 0)
        for again in (None, script):
            result = self.run_job("--resume", self.job, script=again)
            self.assert_ends(result, 0, f"the job {self.job} is done already")
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual((self.dir / "ran").read_text(), "once\n")
        self.assert_ends(self.run_job("--resume", self.job, script=script + "; true"), 0)
        self.assertEqual((self.dir / "ran").read_text(), "once\nonce\n")

    def test_one_that_failed_runs_again_as_it_was(self):
        script = f'echo "$EVERSTEP_SEED $EVERSTEP_REPLICAS" >> {self.dir}/saw; echo "$EVERSTEP_JOB_TOKEN" >> {self.dir}/tokens; echo $RANK; [ $RANK = 1 ] && sleep 9; exit 3'
        options = ["-n", 1, "--replicas", 3, "--max-restarts", 0]
        result = self.run_job(*options, "--job-dir", self.job, script=script)
        self.assert_ends(result, 3)
        self.assertIn(f"everstep run --resume {self.job}", result.stdout + result.stderr)
        resolved = (self.job / "resolved.json").read_bytes()
        self.assert_ends(self.run_job("--resume", self.job, "-n", 2), 3)
        saw = (self.dir / "saw").read_text().splitlines()
        self.assertGreaterEqual(len(saw), 2)
        self.assertEqual(len(set(saw)), 1, "seed and replicas are the job's")
        tokens = set((self.dir / "tokens").read_text().split())
        self.assertEqual(len(tokens), 2, "each run makes its own token, which its workers share")
        self.assertEqual((self.job / "resolved.json").read_bytes(), resolved)
        outcome = json.loads((self.job / "outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["reason"]), (3, "worker:0 exited with code 3"))
        self.assertFalse((self.job / "secret").exists(), "the secret is of no more use")

    def test_a_program_runs_where_it_was_named_wherever_it_is_resumed(self):
        (self.dir / "work").mkdir()
        program = self.dir / "work" / "program"
        program.write_text("#!/bin/sh\npwd\n[ -e ready ] || exit 3\n")
        program.chmod(0o755)
        begin = [ev.EVERSTEP, "run", "--job-dir", self.job, "--max-restarts", 0, "--", "./program"]
        self.assert_ends(ev.run(begin, cwd=self.dir / "work"), 3,
                         "it would fail again: correct it, then everstep run --resume")
        (self.dir / "work" / "ready").touch()
        result = ev.run([ev.EVERSTEP, "run", "--resume", self.job], cwd="/")
        self.assert_ends(result, 0, f"directory    {self.dir}/work\n")
        self.assertIn(f"worker:0 | {self.dir}/work\n", result.stdout)
        (self.dir / "work").rename(self.dir / "moved")
        (self.job / "outcome.json").unlink()
        result = ev.run([ev.EVERSTEP, "run", "--resume", self.job], cwd="/")
        self.assert_ends(result, 78, f"{self.dir}/work: No such file or directory; the program was "
                         "named there")

    def test_what_cannot_be_is_refused_and_changes_nothing(self):
        self.assert_ends(self.run_job("--job-dir", self.job, "--seed", 7, "--max-restarts", 0,
                                      script="exit 3"), 3)
        before = {p: p.stat().st_mtime_ns for p in self.job.rglob("*")}
        checks = [
            (75, ["--job-dir", self.job], "true", "holds a job already; continue it by --resume"),
            (2, ["--resume", self.job, "--seed", 8], None, "--seed says 8, but 7 is the job's seed"),
            (2, ["--resume", self.job, "-n", 2], None, "give -n 1 or fewer"),
            (2, ["--resume", self.job, "--job-dir", self.dir / "other"], None, "leave --job-dir out"),
            (78, ["--resume", self.dir], None, "start a job there by everstep run --job-dir"),
        ]
        for code, options, script, words in checks:
            self.assert_ends(self.run_job(*options, script=script), code, words)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assert_ends(self.run_job("--resume", self.job, "--port", port), 75, str(port))
        self.assertEqual({p: p.stat().st_mtime_ns for p in self.job.rglob("*")}, before)

    def test_a_checkpoint_names_its_job_or_begins_another(self):
        self.assert_ends(self.run_job("--job-dir", self.job, "--seed", 7, script="true"), 0)
        checkpoint = self.job / "checkpoints/step-5-h0-v1.1"
        checkpoint.mkdir()
        (checkpoint / "state.index").touch()
        script = f'echo "$EVERSTEP_SEED [$EVERSTEP_RESTORE_FROM] [$EVERSTEP_BEGIN_FROM]" >> {self.dir}/saw'
        self.assert_ends(self.run_job("--resume", checkpoint, script=script), 0)
        other = self.dir / "other"
        self.assert_ends(self.run_job("--resume", checkpoint, "--job-dir", other, script=script), 0)
        self.assertEqual((self.dir / "saw").read_text(),
                         f"7 [{checkpoint}] []\n7 [] [{checkpoint}]\n",
                         "its own is for one run; what a job began from is for its life")
        self.assertNotEqual((self.job / "token").read_text(), (other / "token").read_text())
        self.assert_ends(self.run_job("--resume", checkpoint, "--job-dir", other, script=script), 75)

    def test_verbs_that_look_refuse_what_is_no_job(self):
        for verb in ("status", "report"):
            result = ev.run([ev.EVERSTEP, verb, self.dir])
            self.assert_ends(result, 65, "is no job directory")

    def test_a_coordinator_by_hand_goes_on_with_a_job(self):
        self.assert_ends(self.run_job("--job-dir", self.job, "--max-restarts", 0, script="exit 3"), 3)
        coordinator = subprocess.Popen(
            [ev.EVERSTEP, "coordinator", "--resume", self.job, "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        self.started.append(coordinator)
        address = coordinator.stderr.readline().split("coordinator on ")[1].split(",")[0]
        agent = ev.run([ev.EVERSTEP, "agent", "--coordinator", address, "--job-dir", self.job, "--",
                        "sh", "-c", "true", str(self.dir)])
        self.assertEqual(agent.returncode, 0, agent.stderr)
        self.assertEqual(coordinator.wait(20), 0)
        self.assertEqual(json.loads((self.job / "outcome.json").read_text())["code"], 0)

    def test_an_agent_that_was_first_joins_a_job_whose_last_run_was_killed(self):
        self.start_long("-n", 1, "--job-dir", self.job)
        self.kill_all()
        self.assertTrue((self.job / "secret").exists(), "that of the run that was killed")
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        agent = subprocess.Popen(
            [ev.EVERSTEP, "agent", "--coordinator", address, "--job-dir", self.job, "--", "sh", "-c",
             "true", str(self.dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(agent)
        time.sleep(0.5)
        coordinator = ev.run([ev.EVERSTEP, "coordinator", "--resume", self.job, "--listen", address])
        self.assertEqual(coordinator.returncode, 0, coordinator.stderr)
        out, err = agent.communicate(timeout=20)
        self.assertEqual(agent.returncode, 0, err)
        self.assertFalse((self.job / "secret").exists())


if __name__ == "__main__":
    unittest.main(verbosity=1)
