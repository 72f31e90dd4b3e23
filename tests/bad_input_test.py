# tests: bad input gets one line that says what to change, and the right exit code.
import os
import pathlib
import socket
import stat
import subprocess
import unittest

import everstep as ev


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.dir = pathlib.Path(cls.scratch.name)
        (cls.dir / "good").mkdir()
        cls.data = ev.mnist_data(cls.dir / "good")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def refuse(self, command, code, *words, lines=1, **keywords):
        result = ev.run(command, timeout=60, **keywords)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)
        if lines:
            self.assertEqual(len(result.stderr.splitlines()), lines, result.stderr)
        return result

    def everstep_run(self, *options, program=("true",), name="job"):
        return [ev.EVERSTEP, "run", "--job-dir", self.dir / name, *options, "--", *program]

    def damaged(self, name, change):
        """A copy of the training data with `change` applied to its bytes."""
        directory = self.dir / name
        directory.mkdir()
        data = bytearray((self.data / "train.tfrecord").read_bytes())
        data = change(data) or data
        (directory / "train.tfrecord").write_bytes(bytes(data))
        os.symlink(self.data / "test.tfrecord", directory / "test.tfrecord")
        return directory

    def train(self, data, workers=2):
        return self.everstep_run("-n", workers, name=f"train-{data.name}",
                                 program=(ev.MNIST, "--data", data, "--epochs", "1"))

    # --- data ---

    def test_missing_data(self):
        result = self.refuse(self.train(self.dir / "nowhere"), 65, "nowhere/train.tfrecord", lines=None)
        self.assertIn("No such file", result.stderr)

    def test_truncated_record(self):
        data = self.damaged("short", lambda d: d[:1000000])
        self.refuse(self.train(data), 65, "short/train.tfrecord", "truncated record at offset", lines=None)

    def test_flipped_byte_in_a_record_names_file_and_offset(self):
        def flip(d):
            d[5000000] ^= 1
        data = self.damaged("flip", flip)
        self.refuse(self.train(data), 65, "flip/train.tfrecord", "corrupted record at offset", lines=None)
        verify = self.refuse([ev.EVERSTEP, "records", "verify", data / "train.tfrecord"], 65,
                             "corrupted record at offset")
        offset = int(verify.stderr.split("at offset ")[1].split()[0].rstrip(":;,."))
        self.assertLessEqual(offset, 5000000)
        self.assertGreater(offset, 5000000 - 1000)

    def test_idx_with_the_wrong_magic_or_too_short(self):
        labels = ev.ROOT / "examples/mnist/data/t10k-labels-idx1-ubyte.gz"
        images = ev.ROOT / "examples/mnist/data/t10k-images-idx3-ubyte.gz"
        output = self.dir / "x.tfrecord"
        command = [ev.EVERSTEP, "records", "import", "idx", "--output", output]
        self.refuse([*command, "--images", labels, "--labels", labels], 65, "t10k-labels", "magic")
        short = self.dir / "short.idx"
        import gzip
        short.write_bytes(gzip.open(images).read()[:100000])
        self.refuse([*command, "--images", short, "--labels", labels], 65, "short.idx", "truncated")
        cut = self.dir / "cut.gz"
        cut.write_bytes(images.read_bytes()[:100000])
        self.refuse([*command, "--images", cut, "--labels", labels], 65, "cut.gz")
        self.refuse([*command, "--images", self.dir / "none", "--labels", labels], 65, "none")
        self.assertFalse(output.exists(), "nothing half-written may stay")

    # --- options ---

    def test_numbers_of_workers_and_replicas(self):
        self.refuse(self.everstep_run("-n", 0), 2, "-n")
        self.refuse(self.everstep_run("-n", 4, "--replicas", 3), 2, "spare")

    def test_unknown_option(self):
        self.refuse([ev.EVERSTEP, "run", "--wrokers", "3", "--", "true"], 2, "--wrokers")
        self.refuse([ev.EVERSTEP, "flyy"], 2)

    def test_nothing_to_run(self):
        self.refuse([ev.EVERSTEP, "run", "-n", "2"], 2, "PROGRAM")

    def test_a_program_without_the_dashes(self):
        self.refuse([ev.EVERSTEP, "run", "-n", "2", "true"], 2, "everstep run -n 2 -- true")

    def test_an_option_that_mnist_does_not_have(self):
        self.refuse([ev.MNIST, "--bathc", "3"], 2, "--bathc")

    # --- programs ---

    def test_program_missing_or_not_executable(self):
        self.refuse(self.everstep_run(program=("no-such-program",)), 78, "no-such-program")
        plain = self.dir / "plain"
        plain.write_text("not a program")
        self.refuse(self.everstep_run(program=(plain,)), 78, plain, "executable")

    def test_a_program_that_exits_at_once_is_shown(self):
        result = ev.run(self.everstep_run("-n", 2, name="exits",
                                          program=("sh", "-c", "echo the disk is on fire >&2; exit 3")))
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("the disk is on fire", result.stderr)
        self.assertRegex(result.stderr, r"worker:\d .*exit.* 3")

    def test_workers_started_with_different_arguments_do_not_wait_for_each_other(self):
        script = 'case "$TF_CONFIG" in *\'"index":1}\'*) e=2;; *) e=1;; esac; exec "$0" "$@" --epochs $e'
        result = ev.run(self.everstep_run("-n", 2, name="differ", program=(
            "sh", "-c", script, ev.MNIST, "--data", self.data)), timeout=30)
        self.assertEqual(result.returncode, 78, result.stdout + result.stderr)
        self.assertIn("do not make the same calls", result.stderr)

    # --- places ---

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refuse(self.everstep_run("--port", port, name="port"), 75, port, "in use")

    def test_job_directory_not_writable(self):
        target = self.dir / "file"
        target.write_text("in the way")
        self.refuse([ev.EVERSTEP, "run", "--job-dir", target / "job", "--", "true"], 78, target)
        if os.path.isdir("/proc/1/net"):
            self.refuse([ev.EVERSTEP, "run", "--job-dir", "/proc/job", "--", "true"], 78, "/proc/job")

    def test_job_directory_of_another_job(self):
        command = self.everstep_run(name="twice")
        self.assertEqual(ev.run(command).returncode, 0)
        self.refuse(command, 75, "twice")

    def test_agent_that_cannot_reach_the_coordinator(self):
        secret = self.dir / "secret"
        secret.write_text("00" * 32)
        secret.chmod(stat.S_IRUSR)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.refuse([ev.EVERSTEP, "agent", "--coordinator", f"127.0.0.1:{port}", "--connect-seconds", "2",
                     "--secret-file", secret, "--", "true"], 75, f"127.0.0.1:{port}")

    def test_a_program_alone_with_a_cluster_but_no_coordinator_does_not_train_alone(self):
        config = '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}}'
        result = ev.run([ev.MNIST, "--data", self.data], env=dict(os.environ, TF_CONFIG=config))
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("the coordinator at a:29700 is beyond loopback", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
