# python: tells Everstep that a program makes steps. Copy this file beside your script, or put its directory
# (`everstep python-path`) on PYTHONPATH. Python 3.8 or newer, nothing else needed.
#
#   everstep_heartbeat.beat(step=n)                           in a loop of your own, after each step
#   model.fit(..., callbacks=[everstep_heartbeat.keras_callback()])
#   everstep_heartbeat.torch_hook(optimizer)                  once; each optimizer.step() is a beat
#
# A beat is one datagram to the socket $EVERSTEP_HEARTBEAT, such as "everstep1 step=120 phase=train loss=0.31". It
# takes microseconds, never waits and never raises. Without the variable nothing happens.
import atexit
import functools
import os
import socket
import types

_LONGEST = 512  # bytes of a datagram
_socket = None


def _word(key, value):
    """" key=value", or nothing for what cannot be said in a word."""
    try:
        if key in ("step", "epoch"):
            value = str(int(value))
        elif not isinstance(value, str):
            value = format(float(value), ".6g")  # numbers of numpy, TensorFlow and torch too
        word = f" {key}={''.join(value.split())}"
        return word if value and word.isascii() and word.isprintable() else ""
    except Exception:
        return ""


def beat(step=None, phase=None, expect=None, **values):
    """Says: alive. `step`: how many are done; `phase`: a word, such as train or evaluate; `expect`: seconds that may
    pass until the next step (say it before something long: a save, a compilation); others: shown to people."""
    global _socket
    try:
        path = os.environ.get("EVERSTEP_HEARTBEAT")
        if not path:
            return
        line = "everstep1"
        for key, value in dict(step=step, phase=phase, expect=expect, **values).items():
            word = _word(key, value) if value is not None else ""
            line += word if len(line) + len(word) <= _LONGEST else ""
        if _socket is None:
            atexit.register(beat, phase="end", expect=0)  # what runs after this program is judged from outside
            _socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        _socket.sendto(line.encode("ascii"), socket.MSG_DONTWAIT, path)
    except Exception:  # nobody there, or a full queue: the training matters more than its heartbeat
        pass


def keras_callback(keras=None):
    """A callback for fit, evaluate and predict. `keras`: the module, if it is not TensorFlow's tf.keras."""
    if keras is None:
        try:
            from tensorflow import keras
        except ImportError:
            import keras

    class Heartbeat(keras.callbacks.Callback):
        done = last = None  # steps over all epochs; the number of the last batch
        training = False

        def on_train_begin(self, logs=None):
            self.done, self.training = None, True
            beat(phase="train")

        def on_train_batch_end(self, batch, logs=None):
            if self.done is not None:  # a call may stand for several steps (steps_per_execution)
                self.done += batch - self.last if batch > self.last else batch + 1
            else:
                try:  # what a backup has brought back is counted in here
                    self.done = int(self.model.optimizer.iterations)
                except Exception:
                    self.done = batch + 1
            self.last = batch
            beat(self.done, "train")

        def on_train_end(self, logs=None):
            self.training = False
            beat(self.done, "end", expect=0)

        def on_test_batch_end(self, batch, logs=None):
            beat(self.done, "evaluate")

        def on_predict_batch_end(self, batch, logs=None):
            beat(self.done, "predict")

        def on_test_end(self, logs=None):
            if not self.training:
                beat(self.done, "end", expect=0)

        def on_predict_end(self, logs=None):
            beat(self.done, "end", expect=0)

    return Heartbeat()


def torch_hook(optimizer, done=0):
    """Makes each optimizer.step() a beat. `done`: the steps that a checkpoint has brought back."""
    count = [int(done)]

    def after(*_):
        count[0] += 1
        beat(count[0], "train")

    if hasattr(optimizer, "register_step_post_hook"):
        optimizer.register_step_post_hook(after)
        return optimizer
    step = optimizer.step  # before torch 2.0

    @functools.wraps(step)
    def step_and_beat(_, *args, **kwargs):
        result = step(*args, **kwargs)
        after()
        return result

    optimizer.step = types.MethodType(step_and_beat, optimizer)
    return optimizer
