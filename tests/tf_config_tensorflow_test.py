# tests: TF_CONFIG as real TensorFlow takes it: generated texts, right and broken, give TFConfigClusterResolver and
# multi_worker_util the same chief, rank and count as us, or both refuse them. Where we differ we mean it.
import collections
import json
import os
import random
import subprocess
import unittest

import everstep as ev
import tensorflow_venv

OURS = ev.BIN / "tf_config_facts"
THEIRS = ev.ROOT / "tests" / "programs" / "tensorflow_facts.py"
TEXTS = 500
SEED = 20


def addresses(random_, count):
    """That many different ones."""
    hosts = [f"host{random_.randrange(1000)}", "10.1.2.3", "[fd00::1]", "node-7.cluster.local"]
    return [f"{random_.choice(hosts)}:{port}" for port in random_.sample(range(2000, 60000), count)]


def right(random_, **sizes):
    """A TF_CONFIG that both take; `sizes`: tasks of each type, else any."""
    count = {"worker": random_.randint(2, 6), "chief": random_.randint(0, 1), "ps": random_.choice([0, 0, 1, 3]),
             "evaluator": random_.choice([0, 0, 1])}
    count.update(sizes)
    every = addresses(random_, sum(count.values()))
    cluster = {}
    for job, size in sorted(count.items(), key=lambda _: random_.random()):
        if size:
            cluster[job], every = every[:size], every[size:]
    job = random_.choice(list(cluster))
    return {"cluster": cluster, "task": {"type": job, "index": random_.randrange(len(cluster[job]))}}


def worker_task(config, index=0):
    config["task"] = {"type": "worker", "index": index}
    return config


def change(do, **sizes):
    """A breakage: `do` changes a right one, of worker 0."""
    def make(random_):
        config = worker_task(right(random_, **sizes))
        result = do(config, random_)
        return result if isinstance(result, str) else json.dumps(result if result is not None else config)
    return make


def address(text):
    def do(config, random_):
        config["cluster"]["worker"][-1] = text
    return change(do)


def index(text):
    return change(lambda config, _: json.dumps(dict(config, task={"type": "worker", "index": "@"})).replace('"@"', text))


def put(**keys):
    return change(lambda config, _: dict(config, **keys))


def cluster(**jobs):
    return change(lambda config, _: dict(config, cluster=dict(config["cluster"], **jobs)))


def sparse(make):
    """The workers as an object."""
    def do(config, random_):
        tasks = make(config["cluster"]["worker"], random_)
        return dict(config, cluster=dict(config["cluster"], worker=tasks))
    return change(do)


def shuffled(tasks, random_):
    items = [(str(i), a) for i, a in enumerate(tasks)]
    random_.shuffle(items)
    return dict(items)


def text(replace):
    return change(lambda config, random_: replace(json.dumps(config), random_))


def no_cluster(**task):
    return lambda random_: json.dumps({"task": task})


BOTH, NEITHER = "both refuse it", "both take it"
NESTED = json.loads("[" * 40 + "]" * 40)
TAKEN_OR_REFUSED_ALIKE = {  # name: (who refuses, our code, how it is made)
    "right": (NEITHER, "", lambda r: json.dumps(right(r))),
    "right, with lines": (NEITHER, "", lambda r: json.dumps(right(r), indent=r.choice([0, 1, "\t"]))),
    "a dense object of tasks": (NEITHER, "", sparse(shuffled)),
    "blanks around keys of tasks": (NEITHER, "", sparse(lambda t, _: {f" {i} ": a for i, a in enumerate(t)})),
    "index as text": (NEITHER, "", index('"1"')),
    "index as text with blanks": (NEITHER, "", index('" 1 "')),
    "index -0": (NEITHER, "", index("-0")),
    "keys that nobody reads": (NEITHER, "", put(environment="cloud", service={"x": [1.5, None, True, "\u00e9\U0001f600"]})),
    "another rpc_layer": (NEITHER, "", put(rpc_layer="grpc+verbs")),
    "key twice": (NEITHER, "", text(lambda t, _: '{"task": {"type": "ps", "index": 77}, ' + t[1:])),
    "empty cluster": (NEITHER, "", put(cluster={})),
    "no cluster": (NEITHER, "", no_cluster(type="worker", index=3)),
    "no workers but a chief": (NEITHER, "", change(lambda c, _: dict(
        c, cluster={"chief": ["h:1"], "worker": []}, task={"type": "chief", "index": 0}))),
    "evaluator in the trainers' cluster": (NEITHER, "", cluster(evaluator=["e:1"])),
    "localhost alone": (NEITHER, "", put(cluster={"worker": ["localhost:1", "127.0.0.1:2"]})),
    "empty": (BOTH, "EV101", lambda _: ""),
    "blank": (BOTH, "EV101", lambda _: " \n"),
    "cut": (BOTH, "EV102", text(lambda t, r: t[:r.randrange(1, len(t))])),
    "comma at the end": (BOTH, "EV102", text(lambda t, _: t.replace('"]', '",]', 1))),
    "single quotes": (BOTH, "EV102", text(lambda t, _: t.replace('"', "'"))),
    "more after the end": (BOTH, "EV102", text(lambda t, _: t + "}")),
    "byte order mark": (BOTH, "EV102", text(lambda t, _: "\ufeff" + t)),
    "True": (BOTH, "EV102", index("True")),
    "line in a text": (BOTH, "EV102", text(lambda t, _: t.replace("worker", "wor\nker"))),
    "top null": (BOTH, "EV106", lambda _: "null"),
    "top a number": (BOTH, "EV106", lambda _: "7"),
    "cluster null": (BOTH, "EV107", put(cluster=None)),
    "cluster a list": (BOTH, "EV107", put(cluster=["h:1"])),
    "job a text": (BOTH, "EV108", cluster(worker="h:1")),
    "job null": (BOTH, "EV108", cluster(worker=None)),
    "address a number": (BOTH, "EV201", address(2222)),
    "address null": (BOTH, "EV201", address(None)),
    "no workers, task worker": (BOTH, "EV305", cluster(worker=[])),
    "task null": (BOTH, "EV109", put(task=None)),
    "no task": (BOTH, "EV301", change(lambda c, _: {"cluster": c["cluster"]})),
    "no index": (BOTH, "EV306", put(task={"type": "worker"})),
    "no type": (BOTH, "EV302", put(task={"index": 0})),
    "unknown type": (BOTH, "EV302", put(task={"type": "boss", "index": 0})),
    "type master": (BOTH, "EV303", put(task={"type": "master", "index": 0})),
    "index empty": (BOTH, "EV307", index('""')),
    "index hexadecimal": (BOTH, "EV307", index('"0x1"')),
    "index a word": (BOTH, "EV307", index('"one"')),
    "index null": (BOTH, "EV307", index("null")),
    "index a list": (BOTH, "EV307", index("[0]")),
    "index too large": (BOTH, "EV305", change(lambda c, _: worker_task(c, len(c["cluster"]["worker"])))),
    "index beyond all": (BOTH, "EV309", index("99999999999999999999")),
    "type without tasks": (BOTH, "EV305", change(lambda c, _: dict(c, task={"type": "ps", "index": 0}), ps=0)),
    "job master": (BOTH, "EV303", cluster(master=["m:1"])),
    "unknown job": (BOTH, "EV304", cluster(workers=["m:1"])),
    "two chiefs": (BOTH, "EV310", cluster(chief=["c:1", "c:2"])),
    "two evaluators": (BOTH, "EV310", cluster(evaluator=["c:1", "c:2"])),
    "index 1 alone": (BOTH, "EV112", change(lambda c, _: dict(
        c, cluster={"worker": {"1": "h:1"}}, task={"type": "worker", "index": 1}))),
    "key of a task a word": (BOTH, "EV111", sparse(lambda t, _: {"one": t[0]})),
}
# What we refuse and TensorFlow takes, to fail later or to wait.
WE_REFUSE = {
    "top a list, which trains alone": ("EV106", lambda _: "[]"),
    "cluster misspelled, which trains alone": ("EV119", text(lambda t, _: t.replace('"cluster"', '"clusters"'))),
    "NaN": ("EV103", text(lambda t, _: t[:-1] + ', "x": NaN}')),
    "-Infinity": ("EV103", text(lambda t, _: t[:-1] + ', "x": -Infinity}')),
    "half a surrogate pair": ("EV102", text(lambda t, _: t[:-1] + ', "x": "\\ud800"}')),
    "nested too deep": ("EV104", put(x=NESTED)),
    "index 1.9": ("EV307", index("1.9")),
    "index 1.0": ("EV307", index("1.0")),
    "index true": ("EV307", index("true")),
    "index \"0_1\"": ("EV307", index('"0_1"')),
    "index \"+1\"": ("EV307", index('"+1"')),
    "index negative": ("EV308", index("-1")),
    "index negative text": ("EV308", index('"-1"')),
    "no index, no cluster": ("EV306", no_cluster(type="worker")),
    "no type, no cluster": ("EV302", no_cluster(index=0)),
    "index left out in an object": ("EV112", sparse(lambda t, _: {"0": t[0], "2": t[1]})),
    "index twice in an object": ("EV111", sparse(lambda t, _: {"0": t[0], " 0": t[1]})),
    "chief without tasks": ("EV114", cluster(chief=[])),
    "ps without tasks": ("EV114", cluster(ps=[])),
    "address twice": ("EV211", change(lambda c, _: c["cluster"]["worker"].append(c["cluster"]["worker"][0]))),
    "address twice, of two jobs": ("EV211", change(lambda c, _: dict(c, cluster=dict(
        c["cluster"], ps=[c["cluster"]["worker"][0]])))),
    "localhost and others": ("EV212", address("localhost:1")),
    "127.0.0.1 and others": ("EV212", address("127.0.0.1:1")),
    "[::1] and others": ("EV212", address("[::1]:1")),
    "address empty": ("EV202", address("")),
    "address with blanks": ("EV202", address("h: 1")),
    "scheme": ("EV203", address("grpc://h:1")),
    "user": ("EV204", address("me@h:1")),
    "path": ("EV205", address("h:1/x")),
    "no port": ("EV206", address("h")),
    "port a word": ("EV207", address("h:x")),
    "port out of range": ("EV207", address("h:65536")),
    "port 0": ("EV208", address("h:0")),
    "IPv6 without brackets": ("EV209", address("fd00::1:2222")),
    "host that is none": ("EV210", address("h\u00f6st:1")),
}
# What TensorFlow refuses (KeyError in worker_count) and we take, with a warning.
TENSORFLOW_REFUSES = {
    "evaluator apart": change(lambda c, _: dict(c, task={"type": "evaluator", "index": 0}), evaluator=0),
}


def cases():
    """(name, text), each kind of both equally often, right ones besides."""
    random_ = random.Random(SEED)
    makers = {name: make for name, (_, _, make) in TAKEN_OR_REFUSED_ALIKE.items()}
    makers.update({name: make for name, (_, make) in WE_REFUSE.items()})
    makers.update(TENSORFLOW_REFUSES)
    names = list(makers)
    for i in range(TEXTS):
        name = names[i // 2 % len(names)] if i % 2 else "right"
        yield name, makers[name](random_)


def facts(command, lines, **options):
    done = subprocess.run([str(c) for c in command], input=lines, capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


class TfConfig(unittest.TestCase):
    def test_of_500_texts_each_is_taken_alike_or_refused_as_listed(self):
        texts = list(cases())
        lines = "".join(json.dumps(text) + "\n" for _, text in texts)
        ours = [json.loads(line) for line in facts([OURS], lines)]
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
        theirs = [json.loads(line[6:]) for line in facts([tensorflow_venv.PYTHON, THEIRS], lines, env=environment)
                  if line.startswith("FACTS ")]
        self.assertEqual((len(ours), len(theirs)), (TEXTS, TEXTS))
        seen = collections.Counter()
        for (name, text), our, their in zip(texts, ours, theirs):
            with self.subTest(name, text=text):
                self.compare(name, our, their)
                seen[name] += 1
        for name in [*TAKEN_OR_REFUSED_ALIKE, *WE_REFUSE, *TENSORFLOW_REFUSES]:
            self.assertGreater(seen[name], 0, f"{name} did not occur")
        print(f"{TEXTS} texts, {sum(our['ok'] for our in ours)} taken by us, {sum(their['ok'] for their in theirs)} "
              f"by TensorFlow; {len(WE_REFUSE) + len(TENSORFLOW_REFUSES)} kinds differ, as listed")

    def compare(self, name, our, their):
        said = f"{our}\n{their}"
        if name in WE_REFUSE:
            self.assertEqual((our["ok"], their["ok"]), (False, True), said)
            self.assertIn(WE_REFUSE[name][0], our["codes"], said)
        elif name in TENSORFLOW_REFUSES:
            self.assertEqual((our["ok"], their["ok"], their.get("error")), (True, False, "KeyError"), said)
            self.assertIn("EV313", " ".join(our["messages"]), said)
        elif TAKEN_OR_REFUSED_ALIKE[name][0] == BOTH:
            self.assertEqual((our["ok"], their["ok"]), (False, False), said)
            self.assertIn(TAKEN_OR_REFUSED_ALIKE[name][1], our["codes"], said)
        else:
            self.assertEqual((our["ok"], their["ok"]), (True, True), said)
            mine = {key: value for key, value in our.items() if key not in ("codes", "messages")}
            self.assertEqual(mine, their, said)


if __name__ == "__main__":
    tensorflow_venv.python()
    unittest.main(verbosity=2)
