# tests: real TensorFlow started by hand with what `everstep config make` wrote and no other help: several workers, and
# parameter servers with an evaluator. `everstep config show` says of each process what TensorFlow says.
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
import unittest

import everstep as ev
import tensorflow_venv

KERAS = ev.ROOT / "examples" / "keras"
PLACE = ev.ROOT / "tests" / "programs" / "tensorflow_place.py"
LIMIT = 240  # seconds for each thing waited for; on a machine with nothing else to do both tests take 40


def bare_environment():
    """Nothing that could help: no word of Everstep's or of another launcher's, and no proxy."""
    unwanted = re.compile(r"(EVERSTEP_|SLURM_|TF_|JOB_COMPLETION)|.*_proxy$", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not unwanted.match(name)}
    return dict(kept, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="2", TF_USE_LEGACY_KERAS="1",
                GRPC_FAIL_FAST="use_caller")


def free_addresses(count):
    """Of this host; they were free a moment ago, all at once."""
    with_ports = []
    for _ in range(count):
        with_ports.append(socket.socket())
        with_ports[-1].bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in with_ports]
    for s in with_ports:
        s.close()
    return addresses


class ByHand(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.addCleanup(self.scratch.cleanup)
        self.addCleanup(lambda: ev.kill_all(self.scratch.name))
        self.dir = pathlib.Path(self.scratch.name)
        self.environment = bare_environment()
        self.processes = {}

    def make(self, *words):
        """The directory that `everstep config make` filled."""
        made = ev.run([ev.EVERSTEP, "config", "make", *words, "--out", self.dir / "configs"], env=self.environment)
        self.assertEqual((made.returncode, made.stderr), (0, ""), made)
        return self.dir / "configs"

    def start(self, task, variable, *script):
        """Starts the script as `task`, as a person would in a shell whose words for TF_CONFIG are `variable`."""
        command = " ".join([variable, "exec", shlex.join(str(w) for w in (tensorflow_venv.PYTHON, PLACE, *script))])
        with open(self.dir / task, "w") as output:
            process = subprocess.Popen(["sh", "-c", command], stdout=output, stderr=subprocess.STDOUT, cwd=self.dir,
                                       env=self.environment, stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.processes[task] = process

    def said(self, task):
        return (self.dir / task).read_text(errors="replace")

    def everything(self):
        return "\n".join(f"---- {task}\n{self.said(task)}" for task in self.processes)

    def wait_for(self, what):
        deadline = time.monotonic() + LIMIT
        while True:
            value = what()
            if value:
                return value
            for task, process in self.processes.items():
                self.assertIn(process.poll(), (None, 0), f"{task} has failed:\n{self.everything()}")
            self.assertLess(time.monotonic(), deadline, f"not in {LIMIT} s:\n{self.everything()}")
            time.sleep(0.05)

    def ends(self, task):
        self.wait_for(lambda: self.processes[task].poll() is not None)
        self.assertEqual(self.processes[task].returncode, 0, self.everything())

    def said_by_tensorflow(self, task):
        line = self.wait_for(lambda: re.search(r"^TensorFlow says (\{.*\})$", self.said(task), re.M))
        return json.loads(line[1])

    def check_places(self, value_of, chief, *options):
        """`everstep config show`, with the task's TF_CONFIG, says what TensorFlow says."""
        for task in self.processes:
            with self.subTest(task=task):
                result = ev.run([ev.EVERSTEP, "config", "show", "--json", *options],
                                env=dict(self.environment, TF_CONFIG=value_of(task)))
                self.assertEqual(result.returncode, 0, result)
                shown, theirs = json.loads(result.stdout), self.said_by_tensorflow(task)
                self.assertEqual(shown["source"], "TF_CONFIG")
                self.assertEqual(shown["findings"], [])
                for key in ("task", "is_chief", "rank"):
                    self.assertEqual(shown[key], theirs[key], key)
                if theirs["num_trainers"] is not None:
                    self.assertEqual(shown["num_trainers"], theirs["num_trainers"])
                own = task.replace("-", ":")
                self.assertEqual(shown["chief"], own if task.startswith("evaluator") else chief)
                self.assertEqual(shown["is_chief"], shown["chief"] == own)


class Workers(ByHand):
    def test_two_workers_train_together_with_what_was_made_for_a_shell(self):
        first, second = free_addresses(2)
        configs = self.make("--workers", f"{first},{second}", "--format", "env")
        self.assertEqual(sorted(p.name for p in configs.iterdir()), ["worker-0.env", "worker-1.env"])
        for task in ("worker-0", "worker-1"):
            self.start(task, f"set -a; . {configs / task}.env; set +a;", KERAS / "mnist_multiworker.py",
                       "--backup", self.dir / "backup", "--images", "640", "--epochs", "1", "--save-freq", "5",
                       "--log-every", "1")
        for task in ("worker-0", "worker-1"):
            self.ends(task)
            self.assertRegex(self.said(task), r"epoch 0 step 4 accuracy")
            self.assertIn(f"{task.replace('-', ':')} is done: accuracy", self.said(task))
        # Of all, not each of its own.
        accuracy = {re.search(r"is done: (accuracy \S+)", self.said(task))[1] for task in self.processes}
        self.assertEqual(len(accuracy), 1, self.everything())
        self.check_places(lambda task: shlex.split((configs / f"{task}.env").read_text())[0].split("=", 1)[1],
                          "worker:0", "--strategy", "mwms")


class ParameterServers(ByHand):
    def test_they_train_and_the_evaluator_looks_on_with_the_files_that_were_made(self):
        chief, first, second, ps, evaluator = free_addresses(5)
        configs = self.make("--chief", chief, "--workers", f"{first},{second}", "--ps", ps, "--evaluator", evaluator)
        tasks = ["chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1"]
        self.assertEqual(sorted(p.name for p in configs.iterdir()), [f"{task}.json" for task in tasks])
        for task in tasks:
            self.start(task, f'TF_CONFIG="$(cat {configs / task}.json)"; export TF_CONFIG;',
                       KERAS / "mnist_parameter_server.py", "--checkpoints", self.dir / "checkpoints",
                       "--images", "1000", "--steps", "20", "--every", "10")
        self.ends("chief-0")
        self.assertIn("the chief is done", self.said("chief-0"))
        self.assertRegex(self.said("chief-0"), r"step 20 accuracy")
        self.ends("evaluator-0")
        self.assertRegex(self.said("evaluator-0"), r"evaluator: step 20: 0\.\d+ right")
        for task in ("worker-0", "worker-1", "ps-0"):  # they serve until somebody ends them
            self.assertIsNone(self.processes[task].poll(), self.everything())
        self.check_places(lambda task: (configs / f"{task}.json").read_text().strip(), "chief:0", "--strategy", "ps")
        for task in ("worker-0", "worker-1", "ps-0"):
            self.processes[task].send_signal(signal.SIGKILL)
            self.processes[task].wait()
        self.assertEqual(ev.processes_of(self.scratch.name), [])


if __name__ == "__main__":
    tensorflow_venv.python()
    unittest.main(verbosity=2)
