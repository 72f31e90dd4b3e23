# tests: promise 2 on real MNIST: the number of workers, where they run and over what they talk does
# not change a bit of the result.
import pathlib
import unittest

import everstep as ev
from hosts import TwoHosts

# 60,000 examples in steps of 212 leave a last one of 4: with 6 replicas, two of them get none.
TAIL_BATCH = "212"


class Digest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.data = ev.mnist_data(cls.scratch.name)
        cls.wanted = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, name, workers, replicas, batch="256", seed="7", before=()):
        job = pathlib.Path(self.scratch.name) / name
        result = ev.run([ev.EVERSTEP, "run", "-n", workers, "--replicas", replicas, "--seed", seed,
                         "--job-dir", job, "--", *before, ev.MNIST, "--data", self.data,
                         "--epochs", "1", "--batch-size", batch])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return ev.digest(job)

    def reference(self, replicas, batch):
        key = (replicas, batch)
        if key not in self.wanted:
            self.wanted[key] = self.train(f"reference-{replicas}-{batch}", 1, replicas, batch)
        return self.wanted[key]

    def test_four_replicas_on_any_number_of_workers(self):
        for workers in (2, 3, 4):
            with self.subTest(workers=workers):
                self.assertEqual(self.train(f"n{workers}", workers, 4), self.reference(4, "256"))

    def test_every_worker_pinned_to_one_core(self):
        for workers in (1, 2, 3, 4):
            with self.subTest(workers=workers):
                got = self.train(f"pinned{workers}", workers, 4, before=("taskset", "-c", "0"))
                self.assertEqual(got, self.reference(4, "256"))

    def test_six_replicas_and_a_tail_that_leaves_some_empty(self):
        for workers in (2, 4):
            with self.subTest(workers=workers):
                got = self.train(f"tail{workers}", workers, 6, TAIL_BATCH)
                self.assertEqual(got, self.reference(6, TAIL_BATCH))

    def test_another_seed_or_number_of_replicas_is_another_job(self):
        self.assertNotEqual(self.train("seed8", 2, 4, seed="8"), self.reference(4, "256"))
        self.assertNotEqual(self.reference(6, TAIL_BATCH), self.reference(4, "256"))

    def test_the_program_alone_is_the_same_job(self):
        job = pathlib.Path(self.scratch.name) / "alone"
        environment = dict(ev.os.environ, EVERSTEP_REPLICAS="4", EVERSTEP_SEED="7",
                           EVERSTEP_JOB_DIR=str(job))
        result = ev.run([ev.MNIST, "--data", self.data, "--epochs", "1"], env=environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(ev.digest(job), self.reference(4, "256"))

    def test_two_hosts_whose_link_carries_the_gradients(self):
        if not TwoHosts.available():
            self.skipTest("needs root and network namespaces")
        job = pathlib.Path(self.scratch.name) / "hosts"
        program = ["--", ev.MNIST, "--data", str(self.data), "--epochs", "1"]
        with TwoHosts() as hosts:
            address = hosts.address[0] + ":29700"
            first = hosts.popen(0, [ev.EVERSTEP, "run", "-n", "4", "--slots", "2", "--replicas", "4",
                                    "--seed", "7", "--job-dir", str(job), "--listen", address,
                                    "--insecure", *program],
                                stdout=ev.subprocess.PIPE, stderr=ev.subprocess.STDOUT, text=True)
            second = hosts.popen(1, [ev.EVERSTEP, "agent", "--coordinator", address, "--slots", "2",
                                     "--job-dir", str(job), "--insecure", *program],
                                 stdout=ev.subprocess.PIPE, stderr=ev.subprocess.STDOUT, text=True)
            try:
                out = first.communicate(timeout=100)[0]
                other = second.communicate(timeout=20)[0]
            finally:
                for process in (first, second):
                    process.kill()
            self.assertEqual(first.returncode, 0, out)
            self.assertEqual(second.returncode, 0, other)
            sent = [hosts.bytes_sent(0), hosts.bytes_sent(1)]
        self.assertEqual(ev.digest(job), self.reference(4, "256"))
        # Each host owns half of the slices: what it must receive for them and send of them is half a
        # gradient for each of the other host's workers' partial sums, each way, each step.
        gradient = 4 * (784 * 128 + 128 + 128 * 10 + 10)
        for host in (0, 1):
            self.assertGreater(sent[host], 235 * gradient, "the gradients did not cross the link")


if __name__ == "__main__":
    unittest.main(verbosity=2)
