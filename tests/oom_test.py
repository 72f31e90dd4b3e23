# tests: a worker that the kernel kills for memory is told as such. Needs leave to make a memory cgroup.
import json
import os
import pathlib
import sys
import unittest

import everstep as ev
from failing_programs_test import FAULTY, write_records

LIMIT = 2 << 30


class Cgroup:
    """A memory cgroup with a limit, of either version; None when none can be made."""

    @staticmethod
    def make():
        name = f"everstep-test-{os.getpid()}"
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = pathlib.Path(root) / name
            try:
                path.mkdir()
            except OSError:
                continue
            try:
                (path / limit).write_text(str(LIMIT))
                return path
            except OSError:
                path.rmdir()
        return None


class OutOfMemory(unittest.TestCase):
    def test_the_kernels_kill_is_told_as_what_it_is(self):
        scratch = ev.Scratch()
        job, data = pathlib.Path(scratch.name) / "job", pathlib.Path(scratch.name) / "good.tfrecord"
        write_records(data, False)
        try:
            result = ev.run([ev.EVERSTEP, "run", "-n", "2", "--job-dir", job, "--max-restarts", "1", "--",
                             FAULTY, data, "hog", "now", "1"],
                            preexec_fn=lambda: (CGROUP / "cgroup.procs").write_text(str(os.getpid())))
            text = result.stdout + result.stderr
            self.assertEqual(result.returncode, 137, text)
            self.assertIn("OOM", text)
            records = [json.loads(line) for line in (job / "incidents.jsonl").read_text().splitlines()]
            failed = [r for r in records if r["kind"] == "worker_failed"]
            self.assertTrue(failed and all(r["oom"] and r["task"] == "worker:1" for r in failed), failed)
        finally:
            ev.kill_all(scratch.name)
            scratch.cleanup()


if __name__ == "__main__":
    CGROUP = Cgroup.make()
    if CGROUP is None:
        print("no leave to make a memory cgroup", file=sys.stderr)
        sys.exit(77)
    try:
        unittest.main(verbosity=2, exit=False).result.wasSuccessful() or sys.exit(1)
    finally:
        CGROUP.rmdir()
