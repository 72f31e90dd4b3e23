# tests: programs that fail: each ends or goes on as the restart policy says, with the user's own error
# shown and on record.
import json
import os
import pathlib
import struct
import sys
import time
import unittest

import everstep as ev

FAULTY = str(ev.BIN / "faulty")
STEPS, BATCH = 160, 4
POISON = 100  # the step that has the bad record


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def length_delimited(field, body):
    return bytes([field << 3 | 2, len(body)]) + body


def example(x, y):
    floats = length_delimited(2, length_delimited(1, struct.pack("<4f", *x)))
    ints = length_delimited(3, length_delimited(1, bytes([y])))
    features = b"".join(length_delimited(1, length_delimited(1, name) + length_delimited(2, value))
                        for name, value in ((b"x", floats), (b"y", ints)))
    return length_delimited(1, features)


def write_records(path, poisoned):
    with open(path, "wb") as f:
        for i in range(STEPS * BATCH):
            x = [(i * k % 17) / 17 for k in (1, 2, 3, 5)]
            # The last example of the step: the last replica has it.
            if poisoned and i == POISON * BATCH + BATCH - 1:
                x[0] = 1e6
            record = example(x, i % 3)
            length = struct.pack("<Q", len(record))
            f.write(length + struct.pack("<I", masked(length)) + record + struct.pack("<I", masked(record)))


class FailingPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = ev.Scratch()
        cls.dir = pathlib.Path(cls.scratch.name)
        cls.good, cls.bad = cls.dir / "good.tfrecord", cls.dir / "bad.tfrecord"
        write_records(cls.good, False)
        write_records(cls.bad, True)
        cls.jobs = 0

    @classmethod
    def tearDownClass(cls):
        ev.kill_all(cls.scratch.name)
        cls.scratch.cleanup()

    def run_faulty(self, *arguments, options=(), data=None, **keywords):
        FailingPrograms.jobs += 1
        self.job = self.dir / f"job{self.jobs}"
        began = time.monotonic()
        result = ev.run([ev.EVERSTEP, "run", "-n", "2", "--replicas", "4", "--seed", "1", "--job-dir", self.job,
                         "--checkpoint-every-steps", "30", *options, "--", FAULTY, data or self.bad, *arguments],
                        timeout=100, **keywords)
        self.took = time.monotonic() - began
        return result

    def records(self, kind=None):
        lines = [json.loads(line) for line in (self.job / "incidents.jsonl").read_text().splitlines()]
        return [r for r in lines if kind is None or r["kind"] == kind]

    def test_one_that_fails_at_once_ends_at_once_with_its_own_words(self):
        for how, code, words in (("exit", 3, "about to fail by exit"),
                                 ("throw", 1, "the record cannot be understood"),
                                 ("segv", 139, "SIGSEGV"), ("abort", 134, "SIGABRT")):
            for rank in ((), ("1",)):
                with self.subTest(how=how, rank=rank):
                    result = self.run_faulty(how, "now", *rank)
                    text = result.stdout + result.stderr
                    self.assertEqual(result.returncode, code, text)
                    self.assertIn(words, text)
                    self.assertLess(self.took, 10)
                    failed, = self.records("worker_failed")
                    self.assertEqual(failed["action"], "end")
                    if rank:
                        self.assertEqual(failed["task"], "worker:1")

    def test_one_that_fails_at_the_same_step_each_time_is_tried_three_times(self):
        for how, code, words in (("exit", 3, "about to fail by exit"), ("segv", 139, "SIGSEGV"),
                                 ("abort", 134, "SIGABRT")):
            with self.subTest(how=how):
                result = self.run_faulty(how)
                text = result.stdout + result.stderr
                self.assertEqual(result.returncode, code, text)
                self.assertIn(words, text)
                failed = self.records("worker_failed")
                self.assertEqual([r["action"] for r in failed], ["restart", "restart", "end"], text)
                for record in failed:
                    self.assertEqual(record["task"], "worker:1")
                    self.assertEqual(record["step"], POISON)
                    self.assertIn("about to fail", "\n".join(record["tail"]))
                    self.assertTrue(pathlib.Path(record["log"]).exists())
                self.assertIn(f"step {POISON}", text)
                self.assertIn("worker:1", text)
                # What was done until then is not lost: without the bad record it goes on from there.
                last = ev.run([ev.EVERSTEP, "checkpoint", "ls", "--json", self.job])
                self.assertEqual(json.loads(last.stdout)[-1]["step"], 90, last.stdout)

    def test_a_layer_that_throws_is_a_mistake_of_the_model_and_not_tried_again(self):
        result = self.run_faulty("throw")
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, 78, text)
        self.assertIn("layer 'trap'", text)
        self.assertIn("the record cannot be understood", text)
        self.assertEqual([r["action"] for r in self.records("worker_failed")], ["end"])

    def test_one_killed_from_outside_each_time_uses_the_budget_up(self):
        result = self.run_faulty("kill", options=["--max-restarts", "3"])
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, 137, text)
        self.assertEqual([r["action"] for r in self.records("worker_failed")],
                         ["restart"] * 3 + ["end"], text)
        self.assertIn("all that --max-restarts allows", text)

    def test_no_restarts_when_none_are_wanted(self):
        result = self.run_faulty("segv", options=["--max-restarts", "0"])
        self.assertEqual(result.returncode, 139)
        self.assertEqual([r["action"] for r in self.records("worker_failed")], ["end"])

    def test_wrong_configuration_and_bad_data_are_not_tried_again(self):
        result = self.run_faulty("none", data=self.dir / "nowhere.tfrecord")
        self.assertIn(result.returncode, (65, 78), result.stderr)
        self.assertIn("nowhere.tfrecord", result.stderr)
        broken = self.dir / "broken.tfrecord"
        data = bytearray(self.good.read_bytes())
        data[len(data) // 2] ^= 1
        broken.write_bytes(data)
        result = self.run_faulty("none", data=broken)
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("broken.tfrecord", result.stderr)
        self.assertNotIn("restart", [r.get("action") for r in self.records()])

    def test_one_that_takes_all_memory_is_told_by_its_own_error(self):
        limit = 4 << 30
        result = self.run_faulty("hog", "now", "1",
                                 preexec_fn=lambda: __import__("resource").setrlimit(
                                     __import__("resource").RLIMIT_AS, (limit, limit)))
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, 1, text)
        self.assertIn("bad_alloc", text)

    def test_a_model_outside_its_strategys_scope_is_refused_since_it_would_train_alone(self):
        result = self.run_faulty("unscoped", data=self.good)
        text = result.stdout + result.stderr
        self.assertEqual(result.returncode, 78, text)
        self.assertIn("Compile was called outside a strategy's scope, so the model would train alone; write "
                      "`auto scope = strategy.Scope();` before it", text)
        self.assertNotIn("restart", [r.get("action") for r in self.records()])

    def test_without_a_fault_it_trains_to_the_end(self):
        result = self.run_faulty("segv", data=self.good)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.records("worker_failed"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
