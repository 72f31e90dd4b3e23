# tests: the walls between the rooms. Fails on a forbidden include, a use of the world outside env, a
# file in no target, a first line that does not name its room, a file or README that is too long.
import pathlib
import re
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "everstep"
ROOMS = tomllib.loads((ROOT / "rooms.toml").read_text())
ORDER = list(ROOMS)

# What only `env` may do, as words that would do it.
WORLD = [
    (r"\b(std::chrono::(steady|system|high_resolution)_clock::now|clock_gettime|gettimeofday)\b", "a clock"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", "a sleep"),
    (r"\b(getenv|setenv|secure_getenv)\s*\(", "the environment"),
    (r"#include <(sys/socket|netinet/|arpa/|netdb|sys/un)", "sockets"),
    (r"#include <random>", "<random>"),
    (r"\b(fork|vfork|_Fork|posix_spawnp?|execve?p?|execle?)\s*\(", "processes"),
]
# Bindings that code of ours must not take from outside, and the room that may.
OWNERS = {prefix: room for room, spec in ROOMS.items() for prefix in spec.get("owns_headers", [])}


def code_of(path):
    """The file without comments and string contents, so that words in them do not count."""
    text = path.read_text()
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'(?<!#include )"(\\.|[^"\\\n])*"', '""', text)


def files():
    return sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".cc", ".cu") and p.parent != SRC)


def room_of(path):
    return path.relative_to(SRC).parts[0]


def include_problems(path, text, room=None):
    room = room or room_of(path)
    allowed = set(ROOMS[room]["may_include"]) | {room}
    narrow = ROOMS[room].get("interfaces_only")
    is_test = path.stem.endswith("_test")
    for header in re.findall(r'#include [<"]([^>"]+)[>"]', text):
        if header.startswith("everstep/"):
            inner = header.removeprefix("everstep/")
            other = inner.split("/")[0]
            if other not in allowed:
                yield f"{path}: room '{room}' may not include {header}"
            working = {h.split("/")[0] for h in narrow or []}
            if narrow and not is_test and other in working and inner not in narrow:
                yield f"{path}: room '{room}' may see only interfaces of '{other}', not {header}"
            continue
        for prefix, owner in OWNERS.items():
            if header.startswith(prefix) and owner != room:
                yield f"{path}: {header} belongs to room '{owner}'"


class Rooms(unittest.TestCase):
    def report(self, problems):
        problems = list(problems)
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_each_room_includes_only_what_rooms_toml_declares(self):
        self.report(p for f in files() for p in include_problems(f, f.read_text()))

    def test_rooms_toml_only_looks_up(self):
        for i, room in enumerate(ORDER):
            for other in ROOMS[room]["may_include"]:
                self.assertIn(other, ORDER[:i], f"room '{room}' may not look down or sideways")

    def test_only_env_touches_the_world(self):
        problems = []
        for f in files():
            if room_of(f) == "env":
                continue
            code = code_of(f)
            problems += [f"{f}: uses {what}; only env may" for pattern, what in WORLD
                         if re.search(pattern, code)]
        self.report(problems)

    def test_every_file_is_in_a_target(self):
        problems = []
        for f in files():
            if f.suffix == ".h":
                continue
            lists = (SRC / room_of(f) / "CMakeLists.txt").read_text()
            if not re.search(r"\b" + re.escape(f.name) + r"\b", lists):
                problems.append(f"{f} is in no target of its room's CMakeLists.txt")
        self.report(problems)

    def test_every_header_is_used(self):
        everything = "\n".join(p.read_text() for d in ("src", "apps", "examples", "bench", "tests", "sim")
                               for p in (ROOT / d).rglob("*") if p.suffix in (".h", ".cc", ".cu"))
        self.report(f"{f} is included by nothing" for f in files()
                    if f.suffix == ".h" and f"everstep/{f.relative_to(SRC)}" not in everything)

    def test_first_lines_name_the_room(self):
        self.report(f"{f}: line 1 must begin with '// {room_of(f)}: '" for f in files()
                    if not f.read_text().startswith(f"// {room_of(f)}: "))

    def test_no_file_is_too_long(self):
        trees = [ROOT / d for d in ("src", "apps", "examples", "bench", "tests", "sim", "scripts")]
        self.report(f"{f}: {n} lines, more than 800" for t in trees for f in t.rglob("*")
                    if f.suffix in (".h", ".cc", ".cu", ".py", ".sh", ".proto")
                    for n in [len(f.read_text().splitlines())] if n > 800)

    def test_every_room_has_a_short_readme(self):
        problems = []
        for room in ORDER:
            readme = SRC / room / "README.md"
            if not readme.exists():
                problems.append(f"{readme} is missing")
            elif len(readme.read_text().splitlines()) > 40:
                problems.append(f"{readme} has more than 40 lines")
        self.report(problems)

    def test_this_test_finds_what_it_looks_for(self):
        """Planted faults: a wall that catches nothing is no wall."""
        bad = SRC / "base" / "x.h"
        self.assertTrue(list(include_problems(bad, '#include "everstep/env/clock.h"\n')))
        self.assertTrue(list(include_problems(SRC / "train" / "x.cc", "#include <torch/torch.h>\n")))
        self.assertTrue(list(include_problems(SRC / "data" / "x.cc", "#include <grpcpp/grpcpp.h>\n")))
        self.assertTrue(list(include_problems(SRC / "wire" / "x.cc", "#include <openssl/evp.h>\n")))
        self.assertTrue(list(include_problems(SRC / "engine" / "x.cc",
                                              '#include "everstep/collective/endpoint.h"\n')))
        for text in ("std::this_thread::sleep_for(d);", 'getenv("X")', "#include <random>",
                     "std::chrono::steady_clock::now()", "#include <sys/socket.h>", "fork()"):
            self.assertTrue(any(re.search(p, text) for p, _ in WORLD), text)


if __name__ == "__main__":
    unittest.main(verbosity=1, argv=sys.argv[:1])
