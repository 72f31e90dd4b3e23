# tests: native programs that somebody starts by hand, one process a task, on two hosts (network namespaces),
# with TF_CONFIG alone or a coordinator's address alone. Exits 77 where namespaces cannot be made.
import json
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

SEED = 7
LEFT_BY = 60  # seconds that anything here may take on a loaded machine


class Hand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.root = pathlib.Path(cls.scratch.name)
        (cls.root / "data").mkdir()
        ev.mnist_data(cls.root / "data")
        cls.digests = {}
        cls.hosts = TwoHosts()
        cls.hosts.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.hosts.__exit__()
        cls.scratch.cleanup()

    def setUp(self):
        self.dir = self.root / self._testMethodName
        self.dir.mkdir()
        self.job = self.dir / "job"
        self.processes, self.ended = [], []
        self.program = ev.MNIST

    def tearDown(self):
        for p in self.processes:
            p.kill()
        try:
            # What is left behind when all have ended in order: nothing.
            self.wait_until(lambda: not ev.processes_of(self.dir), "processes are left", seconds=10)
        finally:
            ev.kill_all(self.dir)
            for p in self.processes:
                p.wait()

    # --- helpers ---

    def wait_until(self, what, text, seconds=LEFT_BY, ends=()):
        """Fails at once when a process ends that is not ended by the test, or not with one of `ends`."""
        deadline = time.monotonic() + seconds
        while not what():
            early = [p for p in self.processes
                     if p.poll() is not None and p.returncode not in ends and p not in self.ended]
            if early or time.monotonic() > deadline:
                ended = f"{early[0].task} has ended with {early[0].returncode}" if early else "too late"
                self.fail(f"{text}: {ended}\n" + "".join(f"--- {p.task}:\n{self.output(p)}" for p in self.processes))
            time.sleep(0.02)

    @staticmethod
    def output(process):
        return process.log.read_text(errors="replace")

    def cluster(self, n=4, chief=False, last_port=0):
        """The first half on host 0."""
        addresses = [f"{self.hosts.address[2 * i // n]}:{2220 + i}" for i in range(n)]
        if last_port:
            addresses[-1] = addresses[-1].rsplit(":", 1)[0] + f":{last_port}"
        if chief:
            return {"chief": addresses[:1], "worker": addresses[1:]}
        return {"worker": addresses}

    def start(self, command, host, task, **variables):
        variables = {name: str(value) for name, value in variables.items() if value is not None}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EVERSTEP_")}
        environment.pop("TF_CONFIG", None)
        environment.pop("HOME", None)
        environment = {**environment, "HOME": str(self.dir), "EVERSTEP_TEST_MARK": str(self.dir), **variables}
        if environment["HOME"] == "":
            del environment["HOME"]
        log = self.dir / f"process-{len(self.processes)}.txt"
        with open(log, "wb") as out:
            process = self.hosts.popen(host, [str(word) for word in command], env=environment, cwd=self.dir,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        process.task, process.log = task, log
        self.processes.append(process)
        return process

    def task(self, cluster, task, epochs=1, steps=0, host=None, **variables):
        """A process of `task` ("worker:1") with nothing but TF_CONFIG, EVERSTEP_INSECURE and `variables`."""
        type_, index = task.split(":")
        if host is None:
            address = cluster[type_][int(index)].rsplit(":", 1)[0]
            host = self.hosts.address.index(address) if address in self.hosts.address else 0
        config = json.dumps({"cluster": cluster, "task": {"type": type_, "index": int(index)}})
        return self.start(self.mnist(epochs, steps), host, task, TF_CONFIG=config,
                          **{"EVERSTEP_INSECURE": "1", **variables})

    def mnist(self, epochs, steps=0):
        command = [self.program, "--data", "../data", "--epochs", epochs]
        return command + (["--checkpoint-every-steps", steps] if steps else [])

    def all_tasks(self, cluster, **keywords):
        """All of them, in random order; only the first is told where the job lies and its seed."""
        first = "chief:0" if "chief" in cluster else "worker:0"
        tasks = [f"{t}:{i}" for t, addresses in cluster.items() for i in range(len(addresses))]
        random.shuffle(tasks)
        started = {}
        for task in tasks:
            mine = {"EVERSTEP_JOB_DIR": self.job, "EVERSTEP_SEED": SEED} if task == first else {}
            started[task] = self.task(cluster, task, **{**mine, **keywords})
        return started

    def end(self, process, code=0, seconds=LEFT_BY):
        """Waits for its end with `code`, and until then no other ends with another; all it has printed."""
        self.wait_until(lambda: process.poll() is not None, f"waiting for the end of {process.task}", seconds,
                        ends=(0, code))
        self.ended.append(process)
        if process.returncode != code:
            self.fail(f"{process.task} ended with {process.returncode}, not {code}\n"
                      + "".join(f"--- {p.task}:\n{self.output(p)}" for p in self.processes))
        return self.output(process)

    def reference(self, epochs, seed=SEED):
        """The digest of the same training by `everstep run -n 4`."""
        if (epochs, seed) not in self.digests:
            job = self.root / f"reference-{epochs}-{seed}"
            result = ev.run([ev.EVERSTEP, "run", "-n", 4, "--seed", seed, "--job-dir", job, "--",
                             ev.MNIST, "--data", self.root / "data", "--epochs", epochs],
                            env={**os.environ, "HOME": str(self.root)})
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.digests[epochs, seed] = ev.digest(job)
        return self.digests[epochs, seed]

    def only_missing(self, task):
        """The coordinator has told those who are there whom they wait for."""
        return any(f"waiting for 1 of 4 tasks: {task} (" in self.output(p) for p in self.processes)

    def step(self):
        try:
            status = json.loads((self.job / "status.json").read_text())
        except (OSError, ValueError):
            return -1
        return status.get("step", -1) if status.get("phase") == "training" else -1

    @staticmethod
    def descendants(pid):
        found, new = [], [pid]
        while new:
            pid = new.pop()
            try:
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except OSError:
                continue
            found += [int(c) for c in children]
            new += [int(c) for c in children]
        return found

    def worker_of(self, process):
        """The process that trains for a task that was started by hand; 0: there is none now."""
        for pid in self.descendants(process.pid):
            if ev.is_alive(pid) and ev.mentions(pid, b"EVERSTEP_INCARNATION="):
                return pid
        return 0

    # --- it goes well ---

    def test_tf_config_alone_is_enough(self):
        cluster = self.cluster()
        tasks = [f"worker:{i}" for i in range(4)]
        random.shuffle(tasks)
        started = {task: self.task(cluster, task) for task in tasks}
        texts = {task: self.end(started[task]) for task in tasks}
        (job,) = (self.dir / "runs").iterdir()
        seed = json.loads((job / "resolved.json").read_text())["options"]["seed"]["value"]
        self.assertEqual(ev.digest(job), self.reference(1, seed))
        for task, text in texts.items():
            self.assertIn(f"{task} of 4 by TF_CONFIG, coordinator 10.213.7.1:29700", text)
            self.assertNotIn("worker:0 | ", text)  # its own lines are its own
            self.assertEqual("test accuracy" in text, task == "worker:0", text)

    def test_a_chief_is_one_of_the_trainers(self):
        started = self.all_tasks(self.cluster(chief=True), OMP_NUM_THREADS=2)
        for process in started.values():
            self.end(process)
        for task, process in started.items():
            self.assertEqual("test accuracy" in self.output(process), task == "chief:0", task)
        self.assertEqual(ev.digest(self.job), self.reference(1))

    def test_an_agent_needs_no_job_directory_and_may_claim_its_task(self):
        self.start([ev.EVERSTEP, "coordinator", "-n", 2, "--replicas", 4, "--seed", SEED, "--insecure", "--job-dir",
                    self.job, "--listen", "10.213.7.1:29700"], 0, "coordinator")
        agents = {}
        for host, task in ((1, "worker:0"), (0, "worker:1")):
            agents[task] = self.start([ev.EVERSTEP, "agent", "--coordinator", "10.213.7.1:29700", "--insecure",
                                       "--task", task, "--", *self.mnist(1)], host, task)
        for task, agent in agents.items():
            text = self.end(agent)
            self.assertEqual("test accuracy" in text, task == "worker:0", text)
        self.assertEqual(ev.digest(self.job), self.reference(1))

    def test_the_address_of_the_coordinator_alone_is_enough(self):
        coordinator = self.start([ev.EVERSTEP, "coordinator", "-n", 4, "--seed", SEED, "--insecure", "--job-dir",
                                  self.job, "--listen", "10.213.7.1:29700"], 0, "coordinator")
        workers = [self.start(self.mnist(1), i % 2, f"process {i}", EVERSTEP_COORDINATOR="10.213.7.1:29700",
                              EVERSTEP_INSECURE=1) for i in range(4)]
        texts = [self.end(worker) for worker in workers]
        self.end(coordinator)
        self.assertEqual(sum("test accuracy" in text for text in texts), 1)
        self.assertEqual(ev.digest(self.job), self.reference(1))

    # --- processes die ---

    def test_what_is_killed_goes_on_and_the_digest_is_the_same(self):
        started = self.all_tasks(self.cluster(), epochs=6, steps=50)
        self.wait_until(lambda: self.step() > 60, "it does not train")
        killed = self.worker_of(started["worker:2"])
        os.kill(killed, signal.SIGKILL)
        self.wait_until(lambda: self.worker_of(started["worker:2"]) not in (0, killed), "not started again")
        again = self.step()
        self.wait_until(lambda: self.step() > max(again, 100), "it does not go on")
        # Now the whole of a process, as when its host fails; then somebody starts it again.
        started["worker:3"].kill()
        self.end(started["worker:3"], -signal.SIGKILL)
        started["worker:3"] = self.task(self.cluster(), "worker:3", epochs=6, steps=50)
        for process in started.values():
            self.end(process, seconds=90)
        self.assertEqual(ev.digest(self.job), self.reference(6))

    def test_one_whose_inner_process_is_killed_is_lost_and_nobody_else(self):
        started = self.all_tasks(self.cluster(), epochs=6, steps=50)
        self.wait_until(lambda: self.step() > 60, "it does not train")
        worker = self.worker_of(started["worker:3"])
        agent = int(pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        self.assertNotIn(agent, (started["worker:3"].pid, 1))
        os.kill(agent, signal.SIGKILL)
        self.end(started["worker:3"], 137)
        started["worker:3"] = self.task(self.cluster(), "worker:3", epochs=6, steps=50)
        for process in started.values():
            self.end(process, seconds=90)
        self.assertEqual(ev.digest(self.job), self.reference(6))

    def test_a_program_whose_file_is_replaced_goes_on_with_what_it_began_with(self):
        self.program = self.dir / "program"
        shutil.copy(ev.MNIST, self.program)
        started = self.all_tasks(self.cluster(), epochs=6, steps=50)
        self.wait_until(lambda: self.step() > 60, "it does not train")
        other = self.dir / "other"
        other.write_text("#!/bin/sh\nexit 3\n")
        other.chmod(0o755)
        other.rename(self.program)
        os.kill(self.worker_of(started["worker:2"]), signal.SIGKILL)
        for process in started.values():
            self.end(process, seconds=90)
        self.program = ev.MNIST
        self.assertEqual(ev.digest(self.job), self.reference(6))

    def test_the_first_task_dies_while_all_wait_and_the_others_end_by_their_deadline(self):
        cluster = self.cluster()
        first, second = (self.task(cluster, task, EVERSTEP_JOIN_DEADLINE=12) for task in ("worker:0", "worker:1"))
        self.wait_until(lambda: "worker:2" in self.output(second), "the second is not there")
        began = time.monotonic()
        first.kill()
        self.end(first, -signal.SIGKILL)
        self.assertIn("out of reach", self.end(second, 75))
        self.assertLess(time.monotonic() - began, 12 + 10)

    def test_sigterm_to_one_ends_all_in_order_and_the_job_can_go_on(self):
        started = self.all_tasks(self.cluster(), epochs=6)
        self.wait_until(lambda: self.step() > 20, "it does not train")
        started["worker:1"].terminate()
        for process in started.values():
            self.end(process, 143)
        started = self.all_tasks(self.cluster(), epochs=6, EVERSTEP_RESUME=self.job, EVERSTEP_JOB_DIR=None)
        for process in started.values():
            self.end(process, seconds=90)
        self.assertEqual(ev.digest(self.job), self.reference(6))

    # --- something is wrong ---

    def test_one_index_twice_and_one_missing_ends_at_the_deadline_and_says_so(self):
        cluster = self.cluster()
        begin = time.monotonic()
        first = [self.task(cluster, f"worker:{i}", EVERSTEP_JOIN_DEADLINE=15, EVERSTEP_JOB_DIR=self.job)
                 for i in range(3)]
        self.wait_until(lambda: self.only_missing("worker:3"), "the others are not there")
        twice = self.task(cluster, "worker:1", EVERSTEP_JOIN_DEADLINE=15)
        text = self.end(twice, 78)
        self.assertRegex(text, rf"worker:1 is taken: process {first[1].pid} on host \S+")
        for process in first:
            text = self.end(process, 75)
            self.assertIn("worker:3", text)
            self.assertRegex(text, r"worker:1 was started twice")
        self.assertLess(time.monotonic() - begin, 15 + 15)

    def test_a_process_of_another_job_is_refused_and_the_others_are_undisturbed(self):
        cluster = self.cluster()
        started = {f"worker:{i}": self.task(cluster, f"worker:{i}", EVERSTEP_SEED=SEED, EVERSTEP_JOB_DIR=self.job)
                   for i in range(3)}
        self.wait_until(lambda: self.only_missing("worker:3"), "the others are not there")
        stranger = self.task(self.cluster(last_port=2299), "worker:3")
        text = self.end(stranger, 78)
        self.assertIn("cluster", text)
        started["worker:3"] = self.task(cluster, "worker:3")
        for process in started.values():
            self.end(process)
        self.assertEqual(ev.digest(self.job), self.reference(1))

    def test_nobody_trains_alone_because_the_others_are_missing(self):
        process = self.task(self.cluster(), "worker:2", EVERSTEP_JOIN_DEADLINE=7)
        text = self.end(process, 75)
        where = "the coordinator at 10.213.7.1:29700, which the process of worker:0 starts"
        self.assertIn(f"everstep: waiting for {where}; last: ", text)
        self.assertIn(f"{where}, was not there within 7 s", text)
        self.assertIn("refused", text)
        self.assertFalse((self.dir / "runs").exists())

    def test_who_waits_for_the_others_ends_on_sigterm_at_once(self):
        process = self.task(self.cluster(), "worker:2")
        self.wait_until(lambda: "worker:2 of 4 by TF_CONFIG" in self.output(process), "it does not begin")
        begin = time.monotonic()
        process.terminate()
        self.end(process, 143)
        self.assertLess(time.monotonic() - begin, 3)

    def test_an_index_of_another_host_is_refused(self):
        text = self.end(self.task(self.cluster(), "worker:3", host=0), 78)
        self.assertRegex(text, r"TF_CONFIG says that worker:3 is at 10\.213\.7\.2:2223, but this host has "
                               r"10\.213\.7\.1 \(\w+\).*: is the index right\? EVERSTEP_SOCKET_IFNAME=\w+ if")

    def test_roles_that_a_native_program_does_not_have_are_refused(self):
        cluster = {**self.cluster(), "ps": ["10.213.7.1:2300"]}
        for task in ("worker:0", "ps:0"):
            self.assertIn("chief and workers only", self.end(self.task(cluster, task), 78))
        cluster = {**self.cluster(), "evaluator": ["10.213.7.1:2300"]}
        self.assertIn("chief and workers only", self.end(self.task(cluster, "evaluator:0"), 78))
        one = {"worker": ["127.0.0.1:2220"], "evaluator": ["127.0.0.1:2221"]}
        self.assertIn("chief and workers only", self.end(self.task(one, "evaluator:0"), 78))

    def test_without_a_place_for_the_join_secret_it_says_what_to_set(self):
        text = self.end(self.task(self.cluster(), "worker:1", HOME=""), 78)
        self.assertIn("EVERSTEP_JOIN_SECRET_FILE", text)
        self.assertIn("HOME", text)

    def test_plain_text_beyond_loopback_needs_leave(self):
        text = self.end(self.task(self.cluster(), "worker:1", EVERSTEP_INSECURE=None), 78)
        self.assertIn("set EVERSTEP_INSECURE=1", text)

    def test_a_port_that_is_taken_is_named_with_the_variable_that_chooses_another(self):
        other = self.start([sys.executable, "-c", "import socket, time; s = socket.create_server(('10.213.7.1', "
                            "29700)); print('up', flush=True); time.sleep(600)"], 0, "other")
        self.wait_until(lambda: "up" in self.output(other), "the port is not taken")
        text = self.end(self.task(self.cluster(), "worker:0"), 75)
        self.assertIn("port 29700 on 10.213.7.1 is taken; by another process that was started as worker:0, or else choose "
                      "another by EVERSTEP_PORT on all tasks", text)
        other.kill()


if __name__ == "__main__":
    if not TwoHosts.available():
        print("network namespaces cannot be made here: needs root")
        sys.exit(77)
    unittest.main()
