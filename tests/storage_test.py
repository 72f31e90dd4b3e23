# tests: a full disk and a directory that cannot be written, while training: the job goes on, tells of
# it, and the next checkpoint after that succeeds. On file systems of the test's own.
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

import everstep as ev


class Storage(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.dir = pathlib.Path(self.scratch.name)
        self.data = ev.mnist_data(self.dir)
        self.job = self.dir / "job"
        self.mounts = []

    def tearDown(self):
        ev.kill_all(self.scratch.name)
        for mount in reversed(self.mounts):
            subprocess.run(["umount", "-l", mount], check=True)
        self.scratch.cleanup()

    def mount(self, path, megabytes):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path], check=True)
        self.mounts.append(path)

    def start(self, *options, epochs=12, **keywords):
        self.epochs = str(epochs)
        self.log = open(self.dir / "output", "w+")
        return subprocess.Popen([ev.EVERSTEP, "run", "-n", "2", "--replicas", "4", "--seed", "7", "--job-dir",
                                 self.job, "--checkpoint-every-steps", "100", *options, "--", ev.MNIST,
                                 "--data", self.data, "--epochs", self.epochs],
                                stdout=self.log, stderr=subprocess.STDOUT, text=True, **keywords)

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def records(self, kind):
        try:
            lines = (self.job / "incidents.jsonl").read_text().splitlines()
        except OSError:
            return []
        records = []
        for line in lines:
            try:
                records.append(json.loads(line))
            except ValueError:
                pass  # the rest of it follows when there is room
        return [r for r in records if r["kind"] == kind]

    def steps(self):
        return sorted(int(p.name.split("-")[1]) for p in (self.job / "checkpoints").glob("step-*"))

    def wait(self, process, check, seconds=30):
        deadline = time.monotonic() + seconds
        while not check():
            self.assertIsNone(process.poll(), self.output())
            self.assertLess(time.monotonic(), deadline, self.output())
            time.sleep(0.01)

    def end(self, process):
        self.assertEqual(process.wait(90), 0, self.output())
        reference = self.dir / "reference"
        result = ev.run([ev.EVERSTEP, "run", "-n", "1", "--replicas", "4", "--seed", "7", "--job-dir", reference,
                         "--", ev.MNIST, "--data", self.data, "--epochs", self.epochs])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(ev.digest(self.job), ev.digest(reference))

    def test_a_disk_that_is_full_for_a_while(self):
        self.mount(self.job / "checkpoints", 8)
        process = self.start()
        self.wait(process, lambda: len(self.steps()) >= 1)
        filler = self.job / "checkpoints" / "filler"
        try:
            with open(filler, "wb") as f:
                while f.write(b"\0" * 65536):
                    f.flush()
        except OSError:
            pass  # it is full now
        self.wait(process, lambda: self.records("checkpoint_failed"))
        record = self.records("checkpoint_failed")[0]
        self.assertIn("No space left", record["cause"])
        before = self.steps()[-1]
        filler.unlink()
        self.wait(process, lambda: self.steps()[-1] > before)
        self.end(process)

    def test_a_directory_that_is_read_only_for_a_while(self):
        self.mount(self.job / "checkpoints", 64)
        process = self.start()
        self.wait(process, lambda: len(self.steps()) >= 1)
        remount = lambda how: subprocess.run(["mount", "-o", f"remount,{how}", self.job / "checkpoints"],
                                             capture_output=True).returncode == 0
        self.wait(process, lambda: remount("ro"))  # not while a file is being written
        self.wait(process, lambda: self.records("checkpoint_failed"))
        self.assertIn("Read-only", self.records("checkpoint_failed")[0]["cause"])
        before = self.steps()[-1]
        self.assertTrue(remount("rw"))
        self.wait(process, lambda: self.steps()[-1] > before)
        self.end(process)

    def test_a_whole_job_directory_that_is_full_for_a_while(self):
        self.mount(self.job, 8)
        process = self.start()
        self.wait(process, lambda: (self.job / "checkpoints").is_dir() and len(self.steps()) >= 1)
        filler = self.job / "filler"
        try:
            with open(filler, "wb") as f:
                while f.write(b"\0" * 4096):
                    f.flush()
        except OSError:
            pass
        time.sleep(2)
        self.assertIsNone(process.poll(), self.output())
        before = self.steps()[-1]
        filler.unlink()
        self.wait(process, lambda: self.steps()[-1] > before)
        # What happened meanwhile is on record once there is room.
        self.wait(process, lambda: self.records("checkpoint_failed"))
        self.end(process)

    def test_a_limit_on_the_size_of_files_is_an_error_that_says_so(self):
        import resource
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        process = self.start(preexec_fn=limit)  # less than the gradients in shared memory need
        self.assertEqual(process.wait(30), 75, self.output())
        self.assertIn("File too large", self.output())

    def test_a_directory_whose_writes_hang_for_twenty_seconds(self):
        hangs = self.dir / "hangs"
        environment = dict(os.environ, LD_PRELOAD=str(ev.BIN.parent / "tests/libslow_disk.so"),
                           SLOW_DISK=str(self.job), SLOW_DISK_NOW=str(hangs))
        process = self.start(epochs=70, env=environment)
        self.wait(process, lambda: len(self.steps()) >= 2)
        epochs = lambda: self.output().count("Epoch ")
        hangs.touch()
        before, kept, began = epochs(), self.steps()[-1], time.monotonic()
        while time.monotonic() < began + 20:
            seen = epochs()
            time.sleep(4)
            self.assertGreater(epochs(), seen, "no step for 4 s\n" + self.output())
        self.assertGreaterEqual(epochs() - before, 8)
        # One may have been through with its writes.
        self.assertLessEqual(self.steps()[-1], kept + 200)
        hangs.unlink()
        self.wait(process, lambda: self.steps()[-1] > kept + 1000)
        self.wait(process, lambda: self.records("storage_slow"))
        self.assertNotIn("silent", self.output())
        self.assertEqual(self.records("worker_failed") + self.records("worker_lost"), [])
        self.end(process)


if __name__ == "__main__":
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        print("needs leave to mount a file system", file=sys.stderr)
        sys.exit(77)
    if not os.environ.get("STORAGE_TEST_ALONE"):
        os.environ["STORAGE_TEST_ALONE"] = "1"  # its mounts are seen by nobody else and end with it
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])
    unittest.main(verbosity=2)
