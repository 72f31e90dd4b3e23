# tests: compressed host lists of Slurm: ours expand as `scontrol show hostnames` expands them, or both refuse;
# where the two differ on purpose, the difference has a name here. Exits 77 where there is no scontrol.
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import everstep as ev

EXPAND = str(ev.BIN.parent / "tests" / "slurm_expand")
LISTS = 1000


def bad_brackets(text):
    """Whether the brackets of some word do not pair, or lie in each other."""
    depth = 0
    for c in text:
        depth += {"[": 1, "]": -1}.get(c, 0)
        if depth not in (0, 1):
            return True
    return depth != 0


def inside(text):
    return re.findall(r"\[([^\]]*)\]", text)


def upper_bound(text):
    """Of the hosts that a word stands for; the most of all words."""
    most = 0
    for word in re.findall(r"(?:\[[^\]]*\]|[^,\s\[])+", text):
        count = 1
        for group in inside(word):
            count *= sum(max(int(m[2] or m[1]) - int(m[1]) + 1, 1)
                         for m in re.finditer(r"(\d+)(?:-(\d+))?", group)) or 1
        most = max(most, count)
    return most


# What Slurm 22 takes and we refuse: nobody can have meant it, and the names it yields are none.
ONLY_SLURM_TAKES = {
    "brackets that do not pair": (bad_brackets, "n[1-2"),
    "a range without an end": (lambda t: any(re.search(r"\d-(,|$)", g) for g in inside(t)), "n[1-]"),
    "what is no digit at a number's end or beginning": (
        lambda t: any(re.search(r"\d[^\d,\-]|[^\d,\-]\d", g) for g in inside(t)), "n[1a-2]"),
    "more than 100000 hosts": (lambda t: upper_bound(t) > 100000, "n[1-400]x[1-400]"),
    "characters that no host's name has": (
        lambda t: re.search(r"[^A-Za-z0-9._\-]", re.sub(r"\[[^\]]*\]|[,\s]", "", t)), "n{1;2}"),
    "a list of no host": (lambda t: not t.strip(", \t"), ","),
}
# What we take and Slurm 22 refuses: newer schedulers' texts, for which there is one meaning only.
ONLY_WE_TAKE = {
    "a name that goes on after its last bracket": (
        lambda t: re.search(r"\][^\[\],\s]+(?=$|[,\s])", t), "n[1-2]-ib"),
    "a range of more than 65536 hosts": (
        lambda t: any(int(m[2]) - int(m[1]) >= 65536 for g in inside(t)
                      for m in re.finditer(r"(\d+)-(\d+)", g)), "n[1-65537]"),
}


def number_text(rng):
    text = str(rng.choice((rng.randrange(12), rng.randrange(120), rng.randrange(90, 105))))
    return text.zfill(rng.choice((0, 0, 2, 3, 4)))


def range_text(rng, most):
    first = number_text(rng)
    if rng.random() < 0.4:
        return first
    last = str(int(first) + rng.randrange(most))
    return first + "-" + (last.zfill(len(first)) if rng.random() < 0.8 else last)


def word(rng):
    text = rng.choice(("n", "gpu", "rack1-", "a.b_", "x9", "", "login"))
    for group in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        if group:
            text += rng.choice(("", "n", "-", "x"))
        ranges = rng.randrange(1, 4) if group < 2 else 1
        text += "[" + ",".join(range_text(rng, 12 if group < 2 else 3) for _ in range(ranges)) + "]"
    if text == "" or rng.random() < 0.05:
        text += rng.choice(("a", "-ib", "7"))
    return text


def broken(rng, text):
    """The list with one byte put in, left out or changed."""
    at = rng.randrange(len(text) + 1)
    put = rng.choice("[]],,--019a +;{")
    return rng.choice((text[:at] + put + text[at:], text[:at] + text[at + 1:], text[:at] + put + text[at + 1:]))


def random_list(rng):
    text = ",".join(word(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 5))))
    for _ in range(rng.choice((0, 0, 1, 2))):
        text = broken(rng, text)
    return text


def short(hosts):
    return "refused" if hosts is None else f"{len(hosts)}: {' '.join(hosts[:12])}"


class HostLists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        conf = pathlib.Path(cls.directory.name) / "slurm.conf"
        conf.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
        cls.environment = {**os.environ, "SLURM_CONF": str(conf)}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def slurms(self, text):
        """The hosts, or None when it refuses: it says so, or leaves hosts out with an error for each."""
        result = subprocess.run(["scontrol", "--", "show", "hostnames", text], env=self.environment, timeout=60,
                                capture_output=True, text=True)
        if re.search("Invalid hostlist|Invalid range|Too many hosts", result.stderr):
            return None
        self.assertEqual((result.returncode, result.stderr), (0, ""), text)
        return result.stdout.split()

    def ours(self, texts):
        result = ev.run([EXPAND], input="".join(t + "\n" for t in texts))
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), len(texts))
        return [line.split()[1:] if line.split()[0] == "ok" else None for line in lines]

    def test_a_thousand_random_lists_are_what_slurm_says_or_a_difference_with_a_name(self):
        rng = random.Random(20)
        texts = [random_list(rng) for _ in range(LISTS)]
        texts = [t for t in texts if t]  # scontrol takes an empty one for none and looks elsewhere
        self.assertGreater(len(texts), LISTS - 10)
        same = both_refuse = 0
        unnamed = []
        for text, mine in zip(texts, self.ours(texts)):
            theirs = self.slurms(text)
            if mine == theirs:
                same += mine is not None
                both_refuse += mine is None
            elif mine is None and any(is_it(text) for is_it, _ in ONLY_SLURM_TAKES.values()):
                pass
            elif theirs is None and any(is_it(text) for is_it, _ in ONLY_WE_TAKE.values()):
                pass
            else:
                unnamed.append(f"{text!r}: ours {short(mine)}, Slurm's {short(theirs)}")
        self.assertFalse(unnamed, "\n" + "\n".join(unnamed))
        print(f"{len(texts)} lists: {same} expanded alike, {both_refuse} refused by both, "
              f"{len(texts) - same - both_refuse} differ on purpose")
        self.assertGreater(same, 500)
        self.assertGreater(both_refuse, 100)

    def test_a_thousand_lists_as_slurm_writes_them_expand_alike_without_exception(self):
        rng = random.Random(21)
        texts = []
        while len(texts) < LISTS:
            text = ",".join(word(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 5))))
            # Slurm writes nothing behind the last bracket.
            if not any(is_it(text) for is_it, _ in ONLY_WE_TAKE.values()):
                texts.append(text)
        for text, mine in zip(texts, self.ours(texts)):
            self.assertIsNotNone(mine, text)
            self.assertEqual(mine, self.slurms(text), text)

    def test_every_difference_with_a_name_is_still_one(self):
        for name, (is_it, example) in {**ONLY_SLURM_TAKES, **ONLY_WE_TAKE}.items():
            with self.subTest(name):
                self.assertTrue(is_it(example))
                mine, theirs = self.ours([example])[0], self.slurms(example)
                self.assertEqual(mine is None, name in ONLY_SLURM_TAKES)
                self.assertEqual(theirs is None, name in ONLY_WE_TAKE)


if __name__ == "__main__":
    if not shutil.which("scontrol"):
        print("there is no scontrol here: package slurm-client")
        sys.exit(77)
    unittest.main()
