#!/usr/bin/env python3
# tests: what the command says of programs that know nothing of Everstep: before they start, while
# they run, at their end, and when they go on.
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev


class GangCommandTest(unittest.TestCase):
    def setUp(self):
        scratch = ev.Scratch()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.addCleanup(lambda: ev.kill_all(str(self.dir)))

    def command(self, *options, program=(), job="job"):
        job_dir = [] if "--resume" in options else ["--job-dir", str(self.dir / job)]
        return [ev.EVERSTEP, "run", *job_dir, "--grace-seconds", "2", *map(str, options),
                *(["--", *map(str, program)] if program else [])]

    def run_it(self, *options, **keywords):
        environment = keywords.pop("env", None)
        return ev.run(self.command(*options, **keywords), timeout=60, env=environment)

    def shell(self, script):
        return ["sh", "-c", script, str(self.dir)]

    def test_a_dry_run_prints_what_a_shell_takes_and_makes_nothing(self):
        result = self.run_it("--gang", "-n", 2, "--dry-run", program=["sh", "-c", "echo $TF_CONFIG $RANK $0", "a b"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertFalse((self.dir / "job").exists())
        told = subprocess.run(["sh"], input=result.stdout, capture_output=True, text=True, timeout=20)
        lines = told.stdout.splitlines()
        self.assertEqual(len(lines), 2, told.stderr)
        config, rest = lines[1].split(" ", 1)
        self.assertEqual(json.loads(config)["task"], {"type": "worker", "index": 1})
        self.assertEqual(rest, "1 a b")

    def test_options_that_mean_nothing_to_a_gang_are_notes(self):
        result = self.run_it("--gang", "-n", 2, "--slots", 3, "--replicas", 1, "--seed", 5, program=["true"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--slots 3 with 2 tasks: 1 slot stays empty\n", result.stderr)
        self.assertIn("--replicas, --seed are for programs made with Everstep and change nothing here\n",
                      result.stderr)
        self.assertIn("  tasks        2 workers\n", result.stderr)
        self.assertNotIn("  seed ", result.stderr)

    def test_traps_are_told_before_the_start(self):
        script = self.dir / "train.py"
        script.write_text("# import torch; loss.backward()\nprint('trains')\n")
        env = dict(os.environ, https_proxy="http://proxy:3128",
                   TF_CONFIG='{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}')
        result = self.run_it("--gang", program=[sys.executable, script], env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("(worker:1 of 2 workers, on other hosts too) is replaced", result.stderr)
        self.assertIn("https_proxy is set: ", result.stderr)
        self.assertNotIn("save", result.stderr)
        script.write_text("import sys\nif 0: import torch; loss.backward()\n")
        result = self.run_it("--gang", program=[sys.executable, script], job="other")
        self.assertIn("train.py seems to save nothing", result.stderr)

    def test_gpus_that_are_not_there_are_refused(self):
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="0,1")
        result = self.run_it("--gang", "-n", 3, "--gpus-per-task", 1, program=["true"], env=env)
        self.assertEqual(result.returncode, 78)
        self.assertIn("asks for 3 GPUs, but CUDA_VISIBLE_DEVICES has 2;", result.stderr)
        self.assertFalse((self.dir / "job").exists())

    def test_the_root_cause_is_named_and_what_followed_from_it(self):
        result = self.run_it("--gang", "-n", 3, program=self.shell(
            "if [ $RANK = 1 ]; then sleep 1; echo boom; exit 3; fi; exec sleep 60"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("worker:0 and worker:2 ended because worker:1 did\n", result.stderr)
        self.assertIn("the job failed (exit code 3): worker:1 exited with code 3\n  | boom\n", result.stderr)
        log = next(line.split()[1] for line in result.stderr.splitlines() if line.startswith("  log "))
        self.assertEqual(pathlib.Path(log).read_text(), "boom\n")
        report = ev.run([ev.EVERSTEP, "report", self.dir / "job"]).stdout
        self.assertIn("worker:1 exited with code 3", report)
        self.assertNotIn("step 0", report)

    def test_last_words_that_have_a_cure_are_met_with_it(self):
        result = self.run_it("--gang", program=self.shell(
            "echo 'RuntimeError: Collective ops must be configured at program startup' >&2; exit 1"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("  hint  make the strategy before anything else", result.stderr)

    def test_a_resumed_gang_starts_its_program_again_in_the_same_job_and_of_any_size(self):
        run = subprocess.Popen(self.command("--gang", "-n", 2, program=self.shell(
            f"echo life >> {self.dir}/lives; [ $(wc -l < {self.dir}/lives) -gt 2 ] || exec sleep 60")),
            stderr=subprocess.PIPE, text=True)
        while not (self.dir / "lives").exists() or (self.dir / "lives").read_text().count("\n") < 2:
            self.assertIsNone(run.poll())
            time.sleep(0.05)
        time.sleep(0.5)
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=30)[1]
        self.assertEqual(run.returncode, 143, said)
        self.assertIn(f"go on with it by everstep run --resume {self.dir}/job\n", said)
        result = self.run_it("--resume", self.dir / "job", "-n", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("goes on      the program starts again; no checkpoint of it was seen\n", result.stderr)
        self.assertIn("tasks        3 workers\n", result.stderr)
        self.assertEqual((self.dir / "lives").read_text(), "life\n" * 5)

    def test_what_was_found_out_to_be_a_gang_is_one_from_the_start_when_it_goes_on(self):
        run = subprocess.Popen(self.command("-n", 2, program=self.shell(f"[ -e {self.dir}/done ] || sleep 60")),
                               stderr=subprocess.PIPE, text=True)
        while "--gang says so from the start" not in (line := run.stderr.readline()):
            self.assertTrue(line, "the run ended")
        status = {}
        while not status.get("gang"):
            time.sleep(0.1)
            status = json.loads(ev.run([ev.EVERSTEP, "status", "--json", self.dir / "job"]).stdout)["status"]
        text = ev.run([ev.EVERSTEP, "status", self.dir / "job"]).stdout
        self.assertRegex(text, r"task +state +step +silent +cores +memory +host +seen\n +worker:0 +running ")
        self.assertRegex(text, r"checkpoint +none seen: a restart would lose \d+ s\n")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
        (self.dir / "done").touch()
        result = self.run_it("--resume", self.dir / "job")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tasks        2 workers\n", result.stderr)

    def test_a_task_may_run_the_command_itself_without_a_word_about_its_variables(self):
        result = self.run_it("--gang", program=[ev.EVERSTEP, "python-path"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("is not a variable", result.stderr)

    def test_python_path_has_the_heartbeat_file(self):
        result = ev.run([ev.EVERSTEP, "python-path"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertTrue((pathlib.Path(result.stdout.strip()) / "everstep_heartbeat.py").is_file(), result.stdout)


if __name__ == "__main__":
    unittest.main()
