# tests: real TensorFlow reads our checkpoints, and we read its. Both ways every bit counts.
#
# TensorFlow comes from the package index (tensorflow_venv.py).
import gzip
import json
import os
import pathlib
import shutil
import sys
import unittest

import everstep as ev
import tensorflow_venv

STEPS = (100, 200, 235)  # an epoch of 60,000 in steps of 256, saved every 100
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
PARAMETERS = {"dense/kernel": [784, 128], "dense/bias": [128],
              "dense_1/kernel": [128, 10], "dense_1/bias": [10]}


def with_tensorflow():
    """Goes on in a Python that has TensorFlow; does not return."""
    python = tensorflow_venv.python()
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3",
                       EVERSTEP_BIN=str(ev.BIN))
    os.execve(python, [str(python), *sys.argv], environment)


if __name__ == "__main__" and pathlib.Path(sys.prefix).resolve() != tensorflow_venv.VENV.resolve():
    with_tensorflow()

import numpy as np        # noqa: E402  (there from here on)
import tensorflow as tf   # noqa: E402


class Box(tf.Module):
    """A node with whatever children it is given."""

    def __init__(self, **children):
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)


def dense(inputs, units):
    return Box(kernel=tf.Variable(tf.zeros([inputs, units])), bias=tf.Variable(tf.zeros([units])))


def layers():
    return Box(dense=dense(784, 128), dense_1=dense(128, 10))


def everything():
    """Objects named as the parts of our state are."""
    return tf.train.Checkpoint(model=layers(), optimizer=Box(m=layers(), v=layers()),
                               step=tf.Variable(0, dtype=tf.int64), seed=tf.Variable(0, dtype=tf.int64))


def checkpoint(*arguments):
    return ev.run([ev.EVERSTEP, "checkpoint", *arguments])


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = ev.Scratch()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)

    def same_bits(self, a, b):
        a, b = np.asarray(a), np.asarray(b)
        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
        self.assertEqual(a.tobytes(), b.tobytes())


class OursInTensorFlow(Scratch):
    @classmethod
    def setUpClass(cls):
        cls.trained = ev.Scratch()
        cls.addClassCleanup(cls.trained.cleanup)
        data = ev.mnist_data(cls.trained.name)
        cls.job = pathlib.Path(cls.trained.name) / "job"
        result = ev.run([ev.EVERSTEP, "run", "-n", "2", "--seed", "7", "--job-dir", cls.job, "--",
                         ev.MNIST, "--data", data, "--epochs", "1", "--checkpoint-every-steps", STEPS[0]])
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)
        cls.checkpoints = cls.job / "checkpoints"
        cls.latest = tf.train.latest_checkpoint(str(cls.checkpoints))

    def test_each_worker_has_written_a_shard(self):
        files = sorted(p.name for p in pathlib.Path(self.latest).parent.glob("state.data-*"))
        self.assertEqual(files, [f"state.data-0000{i}-of-00002" for i in (0, 1)])

    def test_the_latest_is_the_last_step(self):
        self.assertIsNotNone(self.latest)
        self.assertTrue(pathlib.Path(self.latest).parent.name.startswith(f"step-{STEPS[-1]}-"))
        self.assertEqual(tf.train.load_checkpoint(str(self.checkpoints))
                         .get_tensor("save_counter" + VALUE), STEPS[-1])

    def test_the_state_file_names_all_of_them_oldest_first(self):
        state = tf.train.get_checkpoint_state(str(self.checkpoints))
        paths = [pathlib.Path(p) for p in state.all_model_checkpoint_paths]
        self.assertEqual([int(p.parent.name.split("-")[1]) for p in paths], list(STEPS))
        manager = tf.train.CheckpointManager(everything(), str(self.checkpoints), max_to_keep=100)
        self.assertEqual(manager.latest_checkpoint, self.latest)
        for path, step in zip(paths, STEPS):
            reader = tf.train.load_checkpoint(str(path))
            self.assertEqual(reader.get_tensor("save_counter" + VALUE), step)
            self.assertEqual(reader.get_tensor("step" + VALUE), step)

    def test_the_keys_shapes_and_types_are_those_of_the_state(self):
        wanted = {"_CHECKPOINTABLE_OBJECT_GRAPH": [], "everstep/checkpoint": [],
                  **{name + VALUE: [] for name in ("save_counter", "step", "seed")}}
        for place in ("model", "optimizer/m", "optimizer/v"):
            wanted.update({f"{place}/{name}{VALUE}": shape for name, shape in PARAMETERS.items()})
        self.assertEqual(dict(tf.train.list_variables(self.latest)), wanted)
        types = tf.train.load_checkpoint(self.latest).get_variable_to_dtype_map()
        for name in wanted:
            numbers = tf.int64 if name in [n + VALUE for n in ("save_counter", "step", "seed")] else tf.float32
            self.assertEqual(types[name], numbers if name.endswith(VALUE) else tf.string, name)

    def test_what_is_ours_says_what_the_checkpoint_is(self):
        text = tf.train.load_checkpoint(self.latest).get_tensor("everstep/checkpoint")
        ours = json.loads(text)
        self.assertEqual(ours["digest"], ev.digest(self.job))
        self.assertEqual(ours["step"], STEPS[-1])

    def test_a_model_of_the_same_names_is_restored_bit_for_bit(self):
        model = layers()
        tf.train.Checkpoint(model=model).restore(self.latest) \
            .assert_existing_objects_matched().expect_partial()
        reader = tf.train.load_checkpoint(self.latest)
        for name in PARAMETERS:
            layer, parameter = name.split("/")
            variable = getattr(getattr(model, layer), parameter)
            self.assertTrue(np.any(variable.numpy() != 0), name)
            self.same_bits(variable.numpy(), reader.get_tensor(f"model/{name}{VALUE}"))

    def test_nothing_is_left_over_when_the_optimizer_comes_too(self):
        target = everything()
        target.restore(self.latest).assert_consumed()
        self.assertEqual(int(target.step), STEPS[-1])
        self.assertEqual(int(target.save_counter), STEPS[-1])
        self.assertEqual(int(target.seed), 7)
        reader = tf.train.load_checkpoint(self.latest)
        for slot in ("m", "v"):
            for name in PARAMETERS:
                layer, parameter = name.split("/")
                variable = getattr(getattr(getattr(target.optimizer, slot), layer), parameter)
                self.assertTrue(np.any(variable.numpy() != 0), name)
                self.same_bits(variable.numpy(), reader.get_tensor(f"optimizer/{slot}/{name}{VALUE}"))

    def test_an_object_of_another_name_is_not_matched(self):
        stranger = tf.train.Checkpoint(model=Box(other=dense(784, 128)))
        with self.assertRaises(AssertionError):
            stranger.restore(self.latest).assert_existing_objects_matched()

    def test_what_tensorflow_writes_of_it_again_is_the_same_state(self):
        target = everything()
        target.restore(self.latest).assert_consumed()
        again = target.write(str(self.dir / "again"))
        result = checkpoint("diff", self.latest, again)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        kernel = target.model.dense.kernel
        kernel[3, 5].assign(kernel[3, 5] + 1)
        result = checkpoint("diff", self.latest, target.write(str(self.dir / "changed")), "--json")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        [difference] = json.loads(result.stdout)["tensors"]
        self.assertEqual((difference["name"], difference["elements"], difference["first"]),
                         ("model/dense/kernel", 1, [3, 5]))

    def test_a_damaged_byte_is_refused_by_tensorflow_too(self):
        copy = self.dir / "copy"
        shutil.copytree(pathlib.Path(self.latest).parent, copy)
        for file in copy.glob("state.data-*"):
            if file.stat().st_size > 0:
                flip(file, file.stat().st_size // 2)
        with self.assertRaisesRegex(tf.errors.DataLossError, "Checksum does not match"):
            everything().restore(str(copy / "state"))

    def test_our_logits_are_tensorflows(self):
        images = ev.ROOT / "examples/mnist/data/t10k-images-idx3-ubyte.gz"
        count, out = 1000, self.dir / "logits"
        result = ev.run([ev.BIN / "logits", self.latest, images, count, out])
        self.assertEqual(result.returncode, 0, result.stderr)
        ours = np.frombuffer(out.read_bytes(), np.float32).reshape(count, 10)
        model = layers()
        tf.train.Checkpoint(model=model).restore(self.latest).expect_partial()
        pixels = np.frombuffer(gzip.decompress(images.read_bytes())[16:16 + count * 784], np.uint8)
        x = tf.cast(pixels.reshape(count, 784), tf.float32) / 255
        hidden = tf.nn.relu(x @ model.dense.kernel + model.dense.bias)
        theirs = (hidden @ model.dense_1.kernel + model.dense_1.bias).numpy()
        difference = float(np.max(np.abs(ours - theirs)))
        print(f"greatest difference of {ours.size} logits: {difference:.2g}")
        self.assertLessEqual(difference, 1e-5)
        labels = gzip.decompress((images.parent / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:8 + count]
        right = np.mean(np.argmax(ours, axis=1) == np.frombuffer(labels, np.uint8))
        self.assertGreater(right, 0.8)

    def test_a_drill_finds_tensorflows_note_good(self):
        result = checkpoint("drill", self.job, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        drill = json.loads(result.stdout)
        self.assertEqual((drill["taken"]["step"], drill["behind"]["step"]), (STEPS[2], STEPS[1]))
        self.assertEqual(drill["tensorflow"]["prefix"], self.latest)
        self.assertTrue(drill["tensorflow"]["good"])


class TensorFlowsInOurs(Scratch):
    def values(self):
        numbers = [0, 1, -2, 3]
        return {
            "float32": tf.constant(numbers, tf.float32), "float64": tf.constant(numbers, tf.float64),
            "float16": tf.constant(numbers, tf.float16), "bfloat16": tf.constant(numbers, tf.bfloat16),
            "int8": tf.constant(numbers, tf.int8), "int16": tf.constant(numbers, tf.int16),
            "int32": tf.constant(numbers, tf.int32), "int64": tf.constant([numbers], tf.int64),
            "uint8": tf.constant([1, 2], tf.uint8), "uint16": tf.constant([1, 2], tf.uint16),
            "uint32": tf.constant([1, 2], tf.uint32), "uint64": tf.constant(2**64 - 1, tf.uint64),
            "bool": tf.constant([[True], [False]]), "complex64": tf.constant([1 + 2j], tf.complex64),
            "string": tf.constant([["one", ""], ["\n", "x" * 300]]),
            "empty": tf.zeros([0, 3]), "scalar": tf.constant(0.5),
        }

    def save(self, values, name="theirs"):
        variables = {key: tf.Variable(value) for key, value in values.items()}
        return tf.train.Checkpoint(box=Box(**variables)).save(str(self.dir / name))

    def test_every_type_is_listed_shown_and_verified(self):
        values = self.values()
        prefix = self.save(values)
        result = checkpoint("show", prefix, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        shown = {t["name"]: t for t in json.loads(result.stdout)["tensors"]}
        for name, value in values.items():
            tensor = shown.pop(f"box/{name}{VALUE}")
            self.assertEqual((tensor["type"], tensor["shape"]), (value.dtype.name, value.shape.as_list()))
        self.assertEqual(list(shown), ["save_counter" + VALUE])
        for path in (prefix, prefix + ".index"):
            result = checkpoint("verify", path)
            self.assertEqual((result.returncode, result.stdout), (0, prefix + ": OK\n"))
        result = checkpoint("ls", prefix)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{len(values) + 1} tensors, ", result.stdout)

    def test_every_flipped_bit_is_found(self):
        prefix = self.save({k: v for k, v in self.values().items() if k in ("string", "bfloat16", "bool")})
        for suffix in (".index", ".data-00000-of-00001"):
            file = pathlib.Path(prefix + suffix)
            size = file.stat().st_size
            for at in range(0, size, max(1, size // 60)):
                flip(file, at)
                result = checkpoint("verify", prefix)
                self.assertEqual(result.returncode, 65, f"byte {at} of {file.name}: {result.stdout}")
                flip(file, at)
        self.assertEqual(checkpoint("verify", prefix).returncode, 0)

    def test_a_difference_of_each_type_is_found_and_measured(self):
        values = self.values()
        first = self.save(values)
        self.assertEqual(checkpoint("diff", first, self.save(values, "same")).returncode, 0)
        for name, by in (("float16", 4.5), ("bfloat16", 4.5), ("float64", 4.5), ("int8", 5), ("uint16", 2),
                         ("complex64", None), ("string", None), ("bool", 1)):
            changed = dict(values)
            array = np.array(values[name].numpy())
            last = tuple(n - 1 for n in array.shape)
            array[last] = b"other" if name == "string" else not array[last] if name == "bool" \
                else array[last] - (by or 1)
            changed[name] = tf.constant(array, values[name].dtype)
            result = checkpoint("diff", first, self.save(changed, name), "--json")
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            [difference] = json.loads(result.stdout)["tensors"]
            self.assertEqual((difference["name"], difference["elements"], tuple(difference["first"]),
                              difference["greatest"]), (f"box/{name}", 1, last, by))

    def test_a_partitioned_variable_is_verified(self):
        v1 = tf.compat.v1
        with tf.Graph().as_default(), v1.Session() as session:
            v1.get_variable("w", [10, 3], initializer=v1.random_uniform_initializer(seed=3),
                            partitioner=v1.fixed_size_partitioner(3))
            session.run(v1.global_variables_initializer())
            wanted = session.run(tf.concat(v1.global_variables(), 0))
            prefix = v1.train.Saver().save(session, str(self.dir / "sliced"), write_meta_graph=False)
        self.assertEqual(dict(tf.train.list_variables(prefix)), {"w": [10, 3]})
        self.same_bits(tf.train.load_checkpoint(prefix).get_tensor("w"), wanted)
        self.assertEqual(checkpoint("verify", prefix).returncode, 0)
        self.assertIn("  w  float32[10,3]", checkpoint("show", prefix).stdout)
        flip(pathlib.Path(prefix + ".data-00000-of-00001"), 50)
        self.assertEqual(checkpoint("verify", prefix).returncode, 65)


if __name__ == "__main__":
    unittest.main(verbosity=2)
