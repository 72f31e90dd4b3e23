# tests: programs that know nothing of Everstep, run as gangs: who is restarted when, what they find in their
# environment, hangs, and what is put on record. The program is tests/programs/gang.py.
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev

GANG = str(pathlib.Path(__file__).resolve().parent / "programs" / "gang.py")
PYTHON = sys.executable


class Gang(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.dir = pathlib.Path(self.scratch.name)
        (self.dir / "state").mkdir()
        self.job = self.dir / "job"

    def tearDown(self):
        ev.kill_all(self.scratch.name)
        self.scratch.cleanup()

    def command(self, *options, program=(), n=2):
        return [str(c) for c in (ev.EVERSTEP, "run", "--gang", "-n", n, "--job-dir", self.job, *options, "--", PYTHON,
                                 GANG, self.dir / "state", *program)]

    def run_gang(self, *options, program=(), n=2, timeout=100, **keywords):
        result = ev.run(self.command(*options, program=program, n=n), timeout=timeout, **keywords)
        self.text = result.stdout + result.stderr
        return result.returncode

    def start(self, *options, program=(), n=2):
        self.output = open(self.dir / "output", "w+")
        self.addCleanup(self.output.close)
        process = subprocess.Popen(self.command(*options, program=program, n=n), stdout=self.output,
                                   stderr=subprocess.STDOUT, cwd=self.dir)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def said(self):
        return (self.dir / "output").read_text(errors="replace")

    def wait_for(self, words, seconds=30):
        deadline = time.monotonic() + seconds
        while not re.search(words, self.said()):
            self.assertLess(time.monotonic(), deadline, f"'{words}' was not said:\n{self.said()}")
            time.sleep(0.05)

    def wait_for_step(self, step, task="worker-0", seconds=30):
        deadline = time.monotonic() + seconds
        while self.steps(task)[-1:] < [step]:
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.02)

    def steps(self, task="worker-0"):
        path = self.dir / "state" / f"steps-{task}"
        return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []

    def lives(self, task="worker-0"):
        paths = sorted((self.dir / "state").glob(f"life-{task}-*"), key=lambda p: int(p.name.rsplit("-", 1)[1]))
        return [json.loads(p.read_text()) for p in paths]

    def records(self, kind=None):
        lines = [json.loads(line) for line in (self.job / "incidents.jsonl").read_text().splitlines()]
        return [r for r in lines if kind in (None, r["kind"])]

    def status(self):
        result = ev.run([ev.EVERSTEP, "status", self.job, "--json"])
        return json.loads(result.stdout)["status"]


class Restarts(Gang):
    def test_a_killed_member_restarts_all_and_the_gang_goes_on_from_its_own_checkpoint(self):
        self.assertEqual(self.run_gang(program=["--act", "1:25:kill"], n=3), 0, self.text)
        self.assertIn("worker:1 was killed by signal 9 (SIGKILL)", self.text)
        self.assertEqual(self.steps()[-1], 50)
        self.assertEqual([len(self.lives(f"worker-{i}")) for i in range(3)], [2, 2, 2])
        self.assertIn(21, self.steps()[25:])  # saved at 20
        failed = self.records("worker_failed")
        self.assertEqual([(r["task"], r["signal"], r["action"]) for r in failed], [("worker:1", 9, "restart")])
        self.assertEqual([r["incident"] for r in self.records("recovered")], [1])

    def test_each_life_has_ports_that_are_free(self):
        process = self.start("--port-range", "29720-29740", program=["--steps", "60"])
        self.wait_for_step(5)
        first = json.loads(self.lives()[0]["environment"]["TF_CONFIG"])["cluster"]["worker"]
        # Whoever kills a worker takes its port, too.
        os.kill(self.lives("worker-1")[0]["pid"], signal.SIGKILL)
        import socket
        taken = int(first[1].rsplit(":", 1)[1])
        thief, deadline = socket.socket(), time.monotonic() + 5
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                thief.bind(("0.0.0.0", taken))
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
        thief.listen()
        self.addCleanup(thief.close)
        self.assertEqual(process.wait(60), 0, self.said())
        last = json.loads(self.lives("worker-1")[-1]["environment"]["TF_CONFIG"])["cluster"]["worker"]
        self.assertNotIn(f":{taken}", " ".join(last))

    def test_143_and_42_are_no_failures(self):
        acts = [f"{i % 2}:{10 + i}:exit={143 if i % 2 else 42}" for i in range(4)]
        self.assertEqual(self.run_gang("--max-restarts", "1", program=[w for a in acts for w in ("--act", a)]), 0, self.text)
        self.assertEqual(len(self.lives()), 5)

    def test_a_sigterm_to_one_member_by_somebody_else_is_none_either(self):
        process = self.start("--max-restarts", "1", program=["--steps", "60"])
        self.wait_for_step(5)
        os.kill(self.lives("worker-1")[0]["pid"], signal.SIGTERM)
        self.assertEqual(process.wait(60), 0, self.said())
        self.assertEqual(len(self.lives("worker-0")), 2)

    def test_a_program_that_cannot_begin_ends_the_job_at_once_in_its_own_words(self):
        began = time.monotonic()
        self.assertEqual(self.run_gang(program=["--at-start", "exit=1"]), 1, self.text)
        self.assertLess(time.monotonic() - began, 15)
        self.assertIn("cannot begin: no such thing", self.text)
        self.assertEqual(len(self.lives()), 1)

    def test_a_failure_of_its_own_after_a_while_is_tried_again(self):
        self.assertEqual(self.run_gang(program=["--beat", "--act", "1:40:exit=3"]), 0, self.text)
        self.assertIn("worker:1 exited with code 3", self.text)
        self.assertIn("worker-1 gives up at step 40", " ".join(self.records("worker_failed")[0]["tail"]))

    def test_the_budget_is_what_max_restarts_says(self):
        process = self.start("--max-restarts", "2", program=["--steps", "100000", "--save-every", "0"])
        kills = 0
        while process.poll() is None and kills < 10:
            pids = [p for p in ev.processes_of(str(self.dir / "state")) if ev.mentions(p, b"EVERSTEP_INCARNATION=")
                    and ev.mentions(p, b"gang.py")]
            if pids and len(self.lives()) > kills:
                time.sleep(0.3)
                os.kill(self.lives()[-1]["pid"], signal.SIGKILL)
                kills += 1
            time.sleep(0.05)
        self.assertEqual(process.wait(30), 137, self.said())
        self.assertEqual(kills, 3, self.said())
        self.assertIn("--max-restarts allows", self.said())

    def test_who_does_not_hear_sigterm_is_killed_after_the_grace(self):
        began = time.monotonic()
        self.assertEqual(self.run_gang("--grace-seconds", "2", program=["--act", "1:25:kill", "--deaf"], n=3), 0, self.text)
        self.assertLess(time.monotonic() - began, 40)

    def test_sigterm_to_the_job_ends_it_with_143_and_it_can_be_resumed(self):
        process = self.start(program=["--steps", "80"])
        self.wait_for_step(25)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(40), 143, self.said())
        self.assertEqual(ev.processes_of(str(self.dir / "state")), [])
        result = ev.run([ev.EVERSTEP, "run", "--resume", self.job])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.steps()[-1], 80)

    def test_one_that_was_resumed_with_another_number_of_workers_can_be_resumed_again(self):
        process = self.start(program=["--steps", "100000"])
        for run, again in enumerate((["-n", "3"], [], ["-n", "1"], None)):
            deadline = time.monotonic() + 30
            while len(self.lives()) == run:
                self.assertIsNone(process.poll(), self.said())
                self.assertLess(time.monotonic(), deadline, self.said())
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(40), 143, self.said())
            if again is not None:
                process = subprocess.Popen([ev.EVERSTEP, "run", "--resume", self.job, *again], stdout=self.output,
                                           stderr=subprocess.STDOUT, cwd=self.dir)
                self.addCleanup(process.kill)
        self.assertEqual([life["environment"]["WORLD_SIZE"] for life in self.lives()], ["2", "3", "3", "1"])

    def test_a_program_of_any_kind_is_taken_for_a_gang_with_a_note(self):
        command = [c for c in self.command(program=["--steps", "250", "--act", "1:230:kill"]) if c != "--gang"]
        result = ev.run(command, timeout=100)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("--gang", result.stderr + result.stdout)
        self.assertEqual(len(self.lives()), 2)


class Environment(Gang):
    def test_each_finds_its_place_as_tensorflow_and_torch_want_it(self):
        environment = dict(os.environ, TF_CONFIG='{"cluster": {"worker": ["elsewhere:1"]}}', https_proxy="http://proxy:3128",
                           OMP_NUM_THREADS="3")
        self.assertEqual(self.run_gang(n=3, env=environment), 0, self.text)
        for i in range(3):
            found = self.lives(f"worker-{i}")[0]["environment"]
            config = json.loads(found["TF_CONFIG"])
            self.assertEqual(config["task"], {"type": "worker", "index": i})
            self.assertEqual(list(config["cluster"]), ["worker"])
            self.assertEqual(len(config["cluster"]["worker"]), 3)
            self.assertEqual([found[v] for v in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")],
                             [str(i), str(i), "3", "3"])
            self.assertEqual(f"{found['MASTER_ADDR']}:{found['MASTER_PORT']}", config["cluster"]["worker"][0])
            self.assertIn("127.0.0.1", found["no_proxy"])
            self.assertEqual(found["GLOO_SOCKET_IFNAME"], "lo")
            self.assertEqual(found["OMP_NUM_THREADS"], "3")
            self.assertEqual(found["PYTHONFAULTHANDLER"], "1")
            self.assertIn("EVERSTEP_HEARTBEAT", found)

    def test_chief_and_evaluator_have_their_own_places(self):
        self.assertEqual(self.run_gang("--chief", "1", "--evaluator", "1", "--grace-seconds", "1"), 0, self.text)
        chief = json.loads(self.lives("chief-0")[0]["environment"]["TF_CONFIG"])
        self.assertEqual({k: len(v) for k, v in chief["cluster"].items()}, {"chief": 1, "worker": 2})
        evaluator = json.loads(self.lives("evaluator-0")[0]["environment"]["TF_CONFIG"])
        self.assertEqual(list(evaluator["cluster"]), ["evaluator"])
        self.assertEqual([self.lives(t)[0]["environment"]["RANK"] for t in ("chief-0", "worker-0", "worker-1")], ["0", "1", "2"])

    def test_an_evaluator_that_dies_is_restarted_alone(self):
        process = self.start("--evaluator", "1", "--grace-seconds", "1", program=["--steps", "100"])
        self.wait_for_step(5)
        os.kill(self.lives("evaluator-0")[0]["pid"], signal.SIGKILL)
        self.assertEqual(process.wait(60), 0, self.said())
        self.assertEqual([len(self.lives(t)) for t in ("evaluator-0", "worker-0")], [2, 1])


class Hangs(Gang):
    def test_a_stopped_member_is_found_and_named_and_the_job_completes(self):
        self.assertEqual(self.run_gang(program=["--act", "1:25:stop"], n=3), 0, self.text)
        [hung] = self.records("worker_hung")
        self.assertEqual((hung["task"], hung["evidence"], hung["action"]), ("worker:1", "strong", "restart"))
        self.assertIn("worker:1", self.text)
        stacks = pathlib.Path(hung["stacks"]).read_text()
        self.assertIn("gang.py", stacks)
        self.assertIn("act", stacks)

    def test_silence_is_warned_about_and_not_acted_on(self):
        self.assertEqual(self.run_gang("--hang-floor", "4", program=["--act", "1:25:sleep=12"]), 0, self.text)
        self.assertEqual(len(self.lives()), 1)
        [hung] = self.records("worker_hung")
        self.assertEqual(hung["evidence"], "weak")
        self.assertNotIn("action", hung)

    def test_silence_is_acted_on_when_told_to_and_the_culprits_stack_is_kept(self):
        self.assertEqual(self.run_gang("--hang-floor", "4", "--hang-action", "kill", program=["--act", "1:25:sleep=1000"], n=3), 0, self.text)
        hung = self.records("worker_hung")[-1]
        self.assertEqual(hung["action"], "restart")
        self.assertEqual(hung["task"], "worker:1", hung)
        self.assertIn("the_bad_place", pathlib.Path(hung["stacks"]).read_text())

    def test_a_program_that_beats_is_not_even_warned_about_a_long_step(self):
        self.assertEqual(self.run_gang(program=["--beat", "--steps", "40", "--act", "1:25:sleep=70"], timeout=150), 0, self.text)
        self.assertEqual(self.records("worker_hung"), [])
        self.assertEqual(len(self.lives()), 1)

    def test_a_program_that_beats_and_stops_beating_is_acted_on(self):
        self.assertEqual(self.run_gang("--hang-floor", "4", program=["--beat", "--act", "1:25:sleep=1000"], n=3), 0, self.text)
        [hung] = self.records("worker_hung")
        self.assertEqual((hung["evidence"], hung["action"]), ("strong", "restart"))

    def test_one_that_computes_without_a_word_is_left_alone(self):
        self.assertEqual(self.run_gang("--hang-floor", "4", "--hang-action", "kill", program=["--act", "1:25:spin=12"]), 0, self.text)
        self.assertEqual(self.records("worker_hung"), [])

    def test_when_all_are_stopped_somebody_does_it_on_purpose(self):
        process = self.start(program=["--steps", "100"])
        self.wait_for_step(5)
        pids = [self.lives(t)[0]["pid"] for t in ("worker-0", "worker-1")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(9)
        for pid in pids:  # by hand, or host after host
            os.kill(pid, signal.SIGCONT)
            time.sleep(3)
        self.assertEqual(process.wait(60), 0, self.said())
        self.assertEqual(len(self.lives()), 1)
        self.assertEqual(self.records("worker_hung"), [])


class Checkpoints(Gang):
    def test_one_that_saves_nothing_is_told_what_a_restart_would_lose(self):
        self.assertEqual(self.run_gang("--warn-no-checkpoint", "2", program=["--save-every", "0", "--steps", "100"]), 0, self.text)
        self.assertIn("would lose", self.text)
        self.assertTrue(self.records("no_checkpoint"))

    def test_one_that_saves_is_not(self):
        self.assertEqual(self.run_gang("--warn-no-checkpoint", "25", program=["--steps", "300", "--seconds", "0.1"]), 0, self.text)
        self.assertEqual(self.records("no_checkpoint"), [])

    def test_status_knows_the_newest(self):
        process = self.start(program=["--steps", "400", "--seconds", "0.1"])
        self.wait_for_step(15)
        deadline = time.monotonic() + 40
        while not self.status().get("checkpoint_path"):
            self.assertLess(time.monotonic(), deadline, self.status())
            time.sleep(0.5)
        status = self.status()
        self.assertTrue(status["checkpoint_path"].endswith("model.ckpt"), status)
        self.assertTrue(status["gang"])
        self.assertEqual({t["task"] for t in status["tasks"]}, {"worker:0", "worker:1"})
        process.send_signal(signal.SIGTERM)
        process.wait(40)


if __name__ == "__main__":
    unittest.main(verbosity=2)
