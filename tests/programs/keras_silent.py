# tests: examples/keras/mnist_multiworker.py with a long silence in the first worker, by other callbacks than its own.
#   keras_silent.py AT SECONDS none|callback|expect ARGUMENTS...
# callback: with python/everstep_heartbeat.py; expect: all say besides how long the silence may be.
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "examples" / "keras"), str(ROOT / "python")]

import everstep_heartbeat               # noqa: E402
import mnist_multiworker as script      # noqa: E402

at, seconds, heartbeat = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
del sys.argv[1:4]
first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
fit = script.tf.keras.Model.fit


class Silence(script.tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == at and heartbeat == "expect":
            everstep_heartbeat.beat(expect=seconds + 30)
        if batch == at and first:
            print(f"{time.time():.3f} silent for {seconds:g} s", flush=True)
            time.sleep(seconds)


def fit_with_more(self, *args, callbacks=(), **kwargs):
    more = [] if heartbeat == "none" else [everstep_heartbeat.keras_callback()]
    return fit(self, *args, callbacks=[*callbacks, *more, Silence()], **kwargs)


script.tf.keras.Model.fit = fit_with_more
script.main()
