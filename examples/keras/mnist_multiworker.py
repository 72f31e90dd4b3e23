#!/usr/bin/env python3
# examples: MNIST by Keras on several workers, the classic script. It knows nothing of who starts it:
# TF_CONFIG says which worker it is, BackupAndRestore takes it back to where it was.
import argparse
import gzip
import os
import pathlib
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # fit() of Keras 3 does not know several workers

import numpy as np        # noqa: E402  (the environment comes first)
import tensorflow as tf   # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent.parent / "mnist" / "data"


def idx(path):
    """The array in a gzipped IDX file of bytes."""
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def mnist(directory, count):
    images = idx(directory / "train-images-idx3-ubyte.gz")[:count]
    labels = idx(directory / "train-labels-idx1-ubyte.gz")[:count]
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def build_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Reshape((28, 28, 1), input_shape=(28, 28)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ])
    model.compile(optimizer="adam", metrics=["accuracy"],
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Log(tf.keras.callbacks.Callback):
    """A line now and then, with the time."""

    def __init__(self, every, delay, replicas):
        super().__init__()
        self.every, self.delay, self.replicas = every, delay, replicas

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every == 0:
            mean = logs["accuracy"] / self.replicas  # tf-keras gives the sum over replicas here
            print(f"{time.time():.3f} epoch {self.epoch} step {batch} accuracy {mean:.4f}", flush=True)
        if self.delay:
            time.sleep(self.delay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the IDX files")
    parser.add_argument("--backup", required=True, help="directory of the backup: the same for all workers")
    parser.add_argument("--images", type=int, default=60000, help="how many of them")
    parser.add_argument("--batch", type=int, default=128, help="of all workers together")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--save-freq", type=int, default=50, help="steps between backups")
    parser.add_argument("--log-every", type=int, default=10, help="steps between lines")
    parser.add_argument("--delay", type=float, default=0, help="seconds of sleep after each step")
    args = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow
    task = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id
    images, labels = mnist(args.data, args.images)
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(images), seed=7).repeat().batch(args.batch)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = data.with_options(options)
    with strategy.scope():
        model = build_model()
    history = model.fit(data, epochs=args.epochs, steps_per_epoch=len(images) // args.batch, verbose=0,
                        callbacks=[tf.keras.callbacks.BackupAndRestore(args.backup, save_freq=args.save_freq),
                                   Log(args.log_every, args.delay, strategy.num_replicas_in_sync)])
    if history.history:
        print(f"{task[0]}:{task[1]} is done: accuracy {history.history['accuracy'][-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
