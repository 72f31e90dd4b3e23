#!/usr/bin/env python3
# examples: MNIST by Keras with parameter servers: the chief gives out steps, the workers compute them,
# the ps tasks hold the variables. TF_CONFIG says which of them this process is.
import argparse
import gzip
import os
import pathlib
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")        # fit() of Keras 3 does not know parameter servers
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")    # a dead worker is an error, not a wait

import numpy as np        # noqa: E402  (the environment comes first)
import tensorflow as tf   # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent.parent / "mnist" / "data"


def idx(path):
    """The array in a gzipped IDX file of bytes."""
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def mnist(directory, part, count):
    images = idx(directory / f"{part}-images-idx3-ubyte.gz")[:count]
    labels = idx(directory / f"{part}-labels-idx1-ubyte.gz")[:count]
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def build_model():
    return tf.keras.Sequential([
        tf.keras.layers.Flatten(input_shape=(28, 28)),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10),
    ])


def tracked(args, model, optimizer):
    """What a checkpoint holds."""
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=optimizer.iterations)
    return checkpoint, tf.train.CheckpointManager(checkpoint, args.checkpoints, max_to_keep=3)


def coordinate(args, resolver):
    """The chief: restores what there is, then gives out the steps that are left."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = build_model()
        optimizer = tf.keras.optimizers.legacy.Adam()
        optimizer._create_all_weights(model.trainable_variables)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    checkpoint, manager = tracked(args, model, optimizer)
    checkpoint.restore(manager.latest_checkpoint)
    print(f"{time.time():.3f} the chief begins after step {optimizer.iterations.numpy()}", flush=True)

    def data():
        images, labels = mnist(args.data, "train", args.images)
        return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat() \
            .batch(args.batch)

    @tf.function
    def step(iterator):
        def on_replica(images, labels):
            with tf.GradientTape() as tape:
                logits = model(images, training=True)
                loss = tf.nn.compute_average_loss(loss_of(labels, logits))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            accuracy.update_state(labels, logits)
        strategy.run(on_replica, args=next(iterator))

    batches = iter(coordinator.create_per_worker_dataset(data))
    while optimizer.iterations.numpy() < args.steps:
        for _ in range(min(args.every, args.steps - optimizer.iterations.numpy())):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        manager.save(checkpoint_number=optimizer.iterations.numpy())
        print(f"{time.time():.3f} step {optimizer.iterations.numpy()} "
              f"accuracy {accuracy.result().numpy():.4f}", flush=True)
        accuracy.reset_states()
        time.sleep(args.delay)
    print("the chief is done", flush=True)


def evaluate(args):
    """Beside the training: the accuracy of each checkpoint on the test set, until the last."""
    images, labels = mnist(args.data, "t10k", args.images)
    model, optimizer = build_model(), tf.keras.optimizers.legacy.Adam()
    checkpoint, manager = tracked(args, model, optimizer)
    for path in tf.train.checkpoints_iterator(args.checkpoints):
        checkpoint.restore(path).expect_partial()
        right = np.mean(np.argmax(model(images), axis=1) == labels)
        print(f"evaluator: step {optimizer.iterations.numpy()}: {right:.4f} right", flush=True)
        if optimizer.iterations.numpy() >= args.steps:
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the IDX files")
    parser.add_argument("--checkpoints", required=True, help="directory of the checkpoints: the same for all")
    parser.add_argument("--images", type=int, default=60000, help="how many of them")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--delay", type=float, default=0, help="seconds of sleep after each checkpoint")
    args = parser.parse_args()

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type,
                             task_index=resolver.task_id, protocol="grpc", start=True).join()
    elif resolver.task_type == "evaluator":
        evaluate(args)
    else:
        coordinate(args, resolver)


if __name__ == "__main__":
    main()
