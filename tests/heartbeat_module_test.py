# tests: python/everstep_heartbeat.py against a real socket: what it sends, and that it never gets in the way.
import importlib.util
import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest

MODULE = pathlib.Path(__file__).resolve().parent.parent / "python" / "everstep_heartbeat.py"


def fresh():
    """The module as a new process finds it, without its __pycache__."""
    spec = importlib.util.spec_from_file_location("everstep_heartbeat", MODULE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeKeras:
    """As much of Keras as a callback touches."""
    class callbacks:
        class Callback:
            model = None


class FakeOptimizer:
    """An optimizer of torch before 2.0."""
    def __init__(self):
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        return closure() if closure else None


class NewerOptimizer(FakeOptimizer):
    def __init__(self):
        super().__init__()
        self.hook = None

    def register_step_post_hook(self, hook):
        self.hook = hook

    def step(self, closure=None):
        result = super().step(closure)
        if self.hook:
            self.hook(self, (), {})
        return result


class Listening:
    """A socket as Everstep listens on."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "heartbeat")
        self.listen()
        os.environ["EVERSTEP_HEARTBEAT"] = self.path
        self.addCleanup(os.environ.pop, "EVERSTEP_HEARTBEAT", None)
        self.module = fresh()
        self.addCleanup(lambda: self.module._socket and self.module._socket.close())

    def listen(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.path)
        self.socket.settimeout(5)

    def heard(self):
        return self.socket.recv(4096).decode("ascii")

    def all_heard(self):
        self.socket.setblocking(False)
        lines = []
        try:
            while True:
                lines.append(self.heard())
        except BlockingIOError:
            return lines


class Beats(Listening, unittest.TestCase):
    def test_a_beat_is_one_line_with_the_words_in_order(self):
        self.module.beat(step=120, phase="train", expect=600, loss=0.31, epoch=2)
        self.assertEqual(self.heard(), "everstep1 step=120 phase=train expect=600 loss=0.31 epoch=2")

    def test_all_words_are_optional(self):
        self.module.beat()
        self.assertEqual(self.heard(), "everstep1")

    def test_numbers_of_any_library_are_numbers(self):
        class Tensor:
            def __init__(self, value):
                self.value = value

            def __int__(self):
                return int(self.value)

            def __float__(self):
                return float(self.value)
        self.module.beat(step=Tensor(12345678901), expect=Tensor(2.5), loss=Tensor(1 / 3), rate=1e-9)
        self.assertEqual(self.heard(), "everstep1 step=12345678901 expect=2.5 loss=0.333333 rate=1e-09")

    def test_a_loss_that_is_no_number_is_said_too(self):
        self.module.beat(step=1, loss=math.nan)
        self.assertEqual(self.heard(), "everstep1 step=1 loss=nan")

    def test_what_cannot_be_said_in_a_word_is_left_out_and_the_rest_is_said(self):
        self.module.beat(step=3, phase="not one word", a=object(), b="ü", c="", d="\x07", e=[1], f="last")
        self.assertEqual(self.heard(), "everstep1 step=3 phase=notoneword f=last")

    def test_a_line_is_never_longer_than_512_bytes(self):
        self.module.beat(step=1, big="x" * 1000, small="y")
        self.assertEqual(self.heard(), "everstep1 step=1 small=y")
        self.module.beat(**{f"key{i}": "v" * 20 for i in range(100)})
        line = self.heard()
        self.assertLessEqual(len(line), 512)
        self.assertGreater(len(line), 480)

    def test_without_the_variable_nothing_happens(self):
        os.environ.pop("EVERSTEP_HEARTBEAT")
        before = len(os.listdir("/proc/self/fd"))
        self.module.beat(step=1)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual(self.all_heard(), [])

    def test_nobody_there_is_no_error_and_who_comes_later_is_told(self):
        self.socket.close()
        self.module.beat(step=1)
        os.unlink(self.path)
        self.module.beat(step=2)
        self.listen()
        self.module.beat(step=3)
        self.assertEqual(self.heard(), "everstep1 step=3")

    def test_a_path_that_cannot_be_is_no_error(self):
        for path in ("", "/", "/nowhere/at/all", "x" * 5000, "\udcff"):
            os.environ["EVERSTEP_HEARTBEAT"] = path
            self.module.beat(step=1)

    def test_a_listener_that_does_not_read_delays_nobody(self):
        began = time.monotonic()
        for step in range(5000):
            self.module.beat(step=step)
        self.assertLess(time.monotonic() - began, 2)
        lines = self.all_heard()
        self.assertGreater(len(lines), 1)
        self.assertLess(len(lines), 5000)
        self.assertEqual(lines[0], "everstep1 step=0")

    def test_one_descriptor_for_all_beats_and_no_child_inherits_it(self):
        self.module.beat(step=0)
        before = len(os.listdir("/proc/self/fd"))
        for step in range(100):
            self.module.beat(step=step)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertFalse(os.get_inheritable(self.module._socket.fileno()))

    def test_a_forked_child_beats_too(self):
        self.module.beat(step=1)
        child = os.fork()
        if child == 0:
            self.module.beat(step=2)
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(self.all_heard(), ["everstep1 step=1", "everstep1 step=2"])

    def test_the_file_stands_alone(self):
        result = subprocess.run([sys.executable, "-I", "-S", "-c",
                                 f"exec(open({str(MODULE)!r}).read()); beat(7, 'train')"],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.heard(), "everstep1 step=7 phase=train")

    def test_the_file_is_good_for_an_old_python(self):
        import ast
        ast.parse(MODULE.read_text(), feature_version=(3, 8))


class KerasCallback(Listening, unittest.TestCase):
    def callback(self, iterations):
        callback = self.module.keras_callback(FakeKeras)
        callback.model = types.SimpleNamespace(optimizer=types.SimpleNamespace(iterations=iterations))
        return callback

    def test_steps_go_on_over_epochs(self):
        callback = self.callback(iterations=1)
        callback.on_train_begin()
        for _ in range(2):
            for batch in range(3):
                callback.on_train_batch_end(batch)
        self.assertEqual(self.all_heard(), ["everstep1 phase=train"] +
                         [f"everstep1 step={i} phase=train" for i in range(1, 7)])

    def test_steps_that_a_backup_brought_back_are_counted(self):
        callback = self.callback(iterations=161)
        callback.on_train_begin()
        callback.on_train_batch_end(60)
        callback.on_train_batch_end(61)
        self.assertEqual(self.all_heard()[1:], ["everstep1 step=161 phase=train", "everstep1 step=162 phase=train"])

    def test_several_steps_in_one_call_are_counted(self):
        callback = self.callback(iterations=10)
        callback.on_train_begin()
        for batch in (9, 19, 9):
            callback.on_train_batch_end(batch)
        self.assertEqual([line.split()[1] for line in self.all_heard()[1:]], ["step=10", "step=20", "step=30"])

    def test_an_optimizer_that_does_not_count_is_no_error(self):
        callback = self.callback(iterations=None)
        callback.on_train_begin()
        callback.on_train_batch_end(0)
        callback.on_train_batch_end(1)
        self.assertEqual(self.all_heard()[-1], "everstep1 step=2 phase=train")

    def test_evaluation_and_prediction_are_life_too(self):
        callback = self.callback(iterations=5)
        callback.on_test_batch_end(0)
        callback.on_train_begin()
        callback.on_train_batch_end(0)
        callback.on_test_batch_end(0)
        callback.on_predict_batch_end(0)
        self.assertEqual(self.all_heard(), ["everstep1 phase=evaluate", "everstep1 phase=train",
                                            "everstep1 step=5 phase=train", "everstep1 step=5 phase=evaluate",
                                            "everstep1 step=5 phase=predict"])


class TorchHook(Listening, unittest.TestCase):
    def test_each_step_is_a_beat(self):
        for kind in (FakeOptimizer, NewerOptimizer):
            optimizer = self.module.torch_hook(kind(), done=100)
            optimizer.step()
            self.assertEqual(optimizer.step(closure=lambda: 0.5), 0.5)
            self.assertEqual(optimizer.steps, 2)
            self.assertEqual(self.all_heard(), ["everstep1 step=101 phase=train", "everstep1 step=102 phase=train"])
            self.socket.setblocking(True)

    def test_a_step_that_fails_fails_as_before_and_is_no_beat(self):
        def fail():
            raise ZeroDivisionError
        optimizer = self.module.torch_hook(FakeOptimizer())
        with self.assertRaises(ZeroDivisionError):
            optimizer.step(closure=fail)
        self.assertEqual(self.all_heard(), [])

    def test_the_step_is_still_a_method(self):
        """A scheduler of learning rates takes it apart."""
        optimizer = self.module.torch_hook(FakeOptimizer())
        self.assertIs(optimizer.step.__self__, optimizer)
        self.assertTrue(callable(optimizer.step.__func__))


if __name__ == "__main__":
    unittest.main(verbosity=2)
