# tests: `everstep config` as people and scripts use it: exit codes, every way in which a TF_CONFIG is kept, secrets that
# are never printed, and that what it makes is what it takes.
import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

import everstep as ev

GOOD = '{"cluster":{"worker":["h1:2222","h2:2222"]},"task":{"type":"worker","index":1}}'
WRONG = '{"cluster":{"worker":["h1:2222","h2:2222"]},"task":{"type":"worker","index":2}}'
DOUBTFUL = '{"cluster":{"worker":["h1:2222","h2:2222"]},"task":{"type":"worker","index":"1"}}'
SECRET = "hunter2SwordFish9876543210"


def environment(**variables):
    unwanted = re.compile(r"(EVERSTEP_|SLURM_|TF_CONFIG|JOB_COMPLETION)|.*_proxy$", re.IGNORECASE)
    return {**{k: v for k, v in os.environ.items() if not unwanted.match(k)}, **variables}


class Config(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.addCleanup(self.scratch.cleanup)
        self.dir = pathlib.Path(self.scratch.name)

    def run_config(self, *words, expect=0, given="", **variables):
        result = ev.run([ev.EVERSTEP, "config", *words], input=given, env=environment(**variables), cwd=self.dir)
        self.assertEqual(result.returncode, expect, result)
        if expect not in (0, 78):
            self.assertRegex(result.stderr, r"^everstep: [^\n]*\n$")
        return result

    def file(self, text, name="config"):
        path = self.dir / name
        path.write_text(text)
        return path


class Check(Config):
    def test_the_environment_a_file_and_standard_input_are_checked_alike(self):
        for text, code in ((GOOD, 0), (WRONG, 78), (DOUBTFUL, 0), ("", 78), ("{", 78), ("[1]", 78)):
            with self.subTest(text=text):
                said = [self.run_config("check", expect=code, TF_CONFIG=text),
                        self.run_config("check", self.file(text), expect=code),
                        self.run_config("check", "-", given=text, expect=code)]
                codes = [re.findall(r"EV\d+", s.stdout) for s in said]
                self.assertEqual(codes[0], codes[1])
                self.assertEqual(codes[1], codes[2])
                self.assertEqual(bool(codes[0]), text != GOOD)

    def test_an_unset_variable_is_said_and_no_error(self):
        self.assertIn("TF_CONFIG is not set", self.run_config("check").stdout)
        self.assertTrue(json.loads(self.run_config("check", "--json").stdout)["ok"])

    def test_every_form_of_a_file_is_taken(self):
        quoted = shlex.quote(GOOD)
        escaped = GOOD.replace('"', '\\"')
        for text in (f"TF_CONFIG={quoted}\n", f"export TF_CONFIG={quoted}\n", f'export TF_CONFIG="{escaped}"',
                     f"#!/bin/sh\nA=1\n  export TF_CONFIG={quoted}; B=2\npython3 train.py\n", f"TF_CONFIG={GOOD}\nC=3\n"):
            with self.subTest(text=text):
                said = self.run_config("check", self.file(text)).stdout
                self.assertIn("taken out of TF_CONFIG=... in line", said)
                self.assertIn("nothing is wrong", said)
        self.run_config("check", self.file(json.dumps(json.loads(GOOD), indent=2)))

    def test_the_place_is_pointed_at_in_the_file_itself(self):
        text = f"A=1\nexport TF_CONFIG={shlex.quote(WRONG)}\n"
        said = json.loads(self.run_config("check", "--json", self.file(text), expect=78).stdout)
        [finding] = [f for f in said["findings"] if f["error"]]
        self.assertEqual(finding["line"], 2)
        self.assertEqual(text.splitlines()[1][finding["column"] - 1:], "2}}'")
        lines = self.run_config("check", self.file(text), expect=78).stdout.splitlines()
        caret = next(i for i, line in enumerate(lines) if line.strip() == "^")
        self.assertEqual(lines[caret - 1][lines[caret].index("^"):], "2}}")

    def test_the_file_is_named_and_not_the_variable(self):
        self.file(WRONG, "worker-1.json")
        said = self.run_config("check", "worker-1.json", expect=78).stdout
        self.assertRegex(said, r"^error EV305: worker-1.json, task.index \(line 1, column \d+\): ")
        said = self.run_config("check", "-", given="{", expect=78).stdout
        self.assertRegex(said, r"^error EV102: standard input \(line 1, column 2\): ")
        self.assertRegex(self.run_config("check", TF_CONFIG="{", expect=78).stdout, r"^error EV102: TF_CONFIG \(")

    def test_scripts_get_one_object(self):
        for text, code in ((GOOD, 0), (WRONG, 78), ("{", 78)):
            said = json.loads(self.run_config("check", "-", "--json", given=text, expect=code).stdout)
            self.assertEqual(said["ok"], code == 0)
            for finding in said["findings"]:
                self.assertEqual(set(finding), {"code", "error", "where", "line", "column", "what", "cure"})
        said = json.loads(self.run_config("check", "-", "--json", given=GOOD).stdout)
        self.assertEqual((said["chief"], said["is_chief"], said["rank"], said["num_trainers"]), ("worker:0", False, 1, 2))
        self.assertEqual({key: said[key] for key in ("cluster", "task")}, json.loads(GOOD))

    def test_warnings_are_errors_only_to_strict(self):
        self.assertIn("1 warning", self.run_config("check", "-", given=DOUBTFUL).stdout)
        self.assertIn("--strict takes none", self.run_config("check", "-", "--strict", given=DOUBTFUL, expect=78).stderr)

    def test_files_that_cannot_be_read_are_65_and_wrong_options_2(self):
        self.run_config("check", "nowhere", expect=65)
        self.run_config("check", self.dir, expect=65)
        self.run_config("check", self.file("x" * (1 << 21)), expect=65)
        self.run_config("check", "-", given="x" * (1 << 21), expect=65)
        self.run_config("check", "--strategy", "tpu", expect=2)
        self.run_config("check", "a", "b", expect=2)
        self.run_config("chekc", expect=2)

    def test_bytes_that_are_no_text_are_refused_like_any(self):
        for data in (b"\xff\xfe\x00{", b"\x00" * 10, b'{"cluster":{"worker":["\xff:1"]}}', b"TF_CONFIG='\xff"):
            result = subprocess.run([ev.EVERSTEP, "config", "check", "-", "--json"], input=data, capture_output=True,
                                    env=environment())
            self.assertEqual(result.returncode, 78, result)
            self.assertFalse(json.loads(result.stdout)["ok"])

    def test_a_secret_is_named_and_never_printed(self):
        cluster = '"cluster":{"worker":["h1:2222","h2:2222"]},"task":{"type":"worker","index":1}'
        broken = cluster.replace('"index":1', '"index":5')
        for text, code in (
                (f'{{{cluster},"session_master":"grpc://me:{SECRET}@h1:2222"}}', 0),
                (f'{{{cluster},"token":"{SECRET}"}}', 0),
                (f'{{{cluster},"header":"Bearer {SECRET}"}}', 0),
                (f'{{{broken},"password":"{SECRET}"}}', 78),
                (f'{{"pass":"{SECRET}",{broken}}}', 78),
                (f'{{"password":\n"{SECRET}" {cluster}}}', 78),
                (f'{{"pass\\u0077ord":"{SECRET}",{cluster},x}}', 78),
                (GOOD.replace("h2:2222", f"{SECRET}@h2:2222"), 78),
                (GOOD.replace("h2:2222", f"token:{SECRET}"), 78),
                (GOOD.replace("h2:2222", f"http://h2:2222/?key={SECRET}"), 78),
                (GOOD.replace("h2:2222", f"h2:2222/{SECRET}"), 78),
                (GOOD.replace("h2:2222", f"u%3A{SECRET}%40h2:2222"), 78),
                (f'{{{cluster},"rpc_layer":"grpc?pass={SECRET}"}}', 0),
                (f'{{"password":"{SECRET}",{cluster}', 78),                      # not even JSON
                (f'{{"password":"{SECRET}", oops {cluster}}}', 78),
                (GOOD.replace("h2:2222", f"me:{SECRET}@h2:2222"), 78),
                (GOOD.replace("h2:2222", f"grpc://me:{SECRET}@h2:2222"), 78)):
            for words in ((), ("--json",)):
                with self.subTest(text=text, words=words):
                    check = self.run_config("check", "-", *words, given=text, expect=code)
                    show = self.run_config("show", *words, TF_CONFIG=text, expect=code)
                    for said in (check, show):
                        self.assertNotIn(SECRET, said.stdout + said.stderr)
                        self.assertRegex(said.stdout, r"EV\d+")
        beside = f"export PASSWORD={SECRET} TF_CONFIG={shlex.quote(WRONG)}\nTF_CONFIG={shlex.quote(WRONG)} # {SECRET}\n"
        said = self.run_config("check", "-", given=beside, expect=78)
        self.assertNotIn(SECRET, said.stdout + said.stderr)


class Make(Config):
    LISTS = ("--chief", "h0", "--workers", "h1,h2", "--ps", "h3:7", "--evaluator", "[fd00::4]")

    def test_what_it_makes_is_what_it_takes(self):
        said = self.run_config("make", *self.LISTS).stdout
        lines = dict(line.split(maxsplit=1) for line in said.splitlines())
        self.assertEqual(list(lines), ["chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"])
        for task, text in lines.items():
            check = self.run_config("check", "-", "--strict", "--json", "--strategy", "ps", given=text)
            task_type, index = task.split(":")
            self.assertEqual(json.loads(check.stdout)["task"], {"type": task_type, "index": int(index)})
        self.assertEqual(list(json.loads(lines["evaluator:0"])["cluster"]), ["evaluator"])
        self.assertEqual(json.loads(lines["worker:0"])["cluster"],
                         {"chief": ["h0:2222"], "worker": ["h1:2222", "h2:2222"], "ps": ["h3:7"]})
        objects = json.loads(self.run_config("make", *self.LISTS, "--json").stdout)
        self.assertEqual(objects, {task: json.loads(text) for task, text in lines.items()})

    def test_a_shell_takes_it_as_it_is(self):
        one = self.run_config("make", "--workers", "h1,h2", "--task", "worker:1").stdout
        self.assertEqual(one, GOOD + "\n")
        word = self.run_config("make", "--workers", "h1,h2", "--format", "env", "--task", "worker:1").stdout
        shell = ev.run(["sh", "-c", word + 'printf "%s" "$TF_CONFIG"'], env=environment())
        self.assertEqual(shell.stdout, GOOD)

    def test_files_are_written_once_and_others_are_kept(self):
        out = self.dir / "a" / "b"
        said = self.run_config("make", "--workers", "h1,h2", "--out", out).stdout
        self.assertEqual(said, f"worker:0  {out}/worker-0.json\nworker:1  {out}/worker-1.json\n")
        self.assertEqual((out / "worker-1.json").read_text(), GOOD + "\n")
        self.run_config("make", "--workers", "h1,h2", "--out", out)
        refused = self.run_config("make", "--workers", "h3", "--out", out, expect=78)
        self.assertIn("--force replaces it", refused.stderr)
        self.assertEqual((out / "worker-1.json").read_text(), GOOD + "\n")
        forced = self.run_config("make", "--workers", "h3", "--out", out, "--force")
        self.assertIn(f"{out}/worker-1.json is of no task of this cluster", forced.stderr)
        self.run_config("make", "--workers", "h1", "--format", "env", "--out", out)
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["worker-0.env", "worker-0.json", "worker-1.json"])
        self.run_config("check", out / "worker-0.env", "--strict")

    def test_what_cannot_work_is_refused_by_its_code(self):
        for words in (("--workers", "h1,h1"), ("--workers", "h1,localhost"), ("--workers", "h1,fd00::1:2222"),
                      ("--workers", "h1", "--ps", "h2"), ("--workers", "h1", "--ps", "h2", "--strategy", "mwms"),
                      ("--workers", "h1,h2", "--evaluator", "h2"), ("--workers", "h1", "--chief", "a,b"),
                      ("--workers", "grpc://h1:1"), ("--workers", "me@h1:1"), ("--workers", "h1:99999")):
            with self.subTest(words=words):
                refused = self.run_config("make", *words, "--out", self.dir / "out", expect=78)
                self.assertRegex(refused.stderr, r"EV\d+: .*\n(.*\n)*everstep: nothing was made: \d errors? ")
                self.assertEqual(refused.stdout, "")
                self.assertFalse((self.dir / "out").exists())

    def test_who_knows_other_launchers_is_told_what_it_is_here(self):
        for words, said in ((("--workers=2",), "takes addresses, not 2"),
                            (("--worker_hosts=h1:1", "--ps_hosts=h2:1"), "it is --workers here"),
                            (("--workers", "h1", "--ps_hosts=h2:1"), "it is --ps here"),
                            (("--num_workers", "2"), "as many tasks as addresses"),
                            (("--workers", "h1", "--task_index", "0"), "--task worker:0"),
                            (("--workers", "h1", "--job_name", "worker"), "all tasks are made at once"),
                            (("--wrokers", "h1"), "did you mean --workers?"),
                            ((), "nobody trains: --workers"),
                            (("--workers", "h1", "--task", "worker:1"), "there is no worker:1")):
            with self.subTest(words=words):
                self.assertIn(said, self.run_config("make", *words, expect=2).stderr)


class Show(Config):
    def test_the_place_is_explained_whoever_says_it(self):
        by_variable = self.run_config("show", TF_CONFIG=GOOD).stdout
        self.assertIn("TF_CONFIG", by_variable)
        self.assertIn("worker:1", by_variable)
        self.assertIn("h1:29700", by_variable)
        listed = dict(EVERSTEP_CLUSTER_WORKERS="h1:2222,h2:2222", EVERSTEP_TASK="worker:1")
        self.assertIn(f"TF_CONFIG='{GOOD}'", self.run_config("show", **listed).stdout)
        first = json.loads(self.run_config("show", "--json", TF_CONFIG=GOOD).stdout)
        second = json.loads(self.run_config("show", "--json", **listed).stdout)
        for key in ("task", "cluster", "chief", "rank", "num_trainers", "coordinator", "starts_coordinator"):
            self.assertEqual(first[key], second[key], key)
        self.assertNotEqual(first["source"], second["source"])
        self.assertIn("alone", self.run_config("show").stdout)

    def test_a_misspelt_variable_is_warned_about(self):
        said = self.run_config("show", EVERSTEP_COORDINATR="h:1")
        self.assertIn("did you mean EVERSTEP_COORDINATOR?", said.stderr)
        self.assertIn("alone", said.stdout)

    def test_what_is_wrong_is_78(self):
        self.assertRegex(self.run_config("show", TF_CONFIG=WRONG, expect=78).stdout, r"error EV\d+")
        self.assertFalse(json.loads(self.run_config("show", "--json", TF_CONFIG="", expect=78).stdout)["ok"])
        self.run_config("show", EVERSTEP_CLUSTER_WORKERS="h1:1,h2:1", EVERSTEP_TASK="worker:7", expect=78)
        ps = '{"cluster":{"ps":["p:1"],"worker":["h1:1"]},"task":{"type":"worker","index":0}}'
        self.run_config("show", "--strategy", "mwms", TF_CONFIG=ps, expect=78)

    def test_a_task_without_a_cluster_is_said_by_check_and_show(self):
        for task in ("worker", "chief", "ps"):
            text = f'{{"task":{{"type":"{task}","index":0}}}}'
            for verb in ("check", "show"):
                expect = 78 if verb == "show" else 0  # a program made with Everstep would not go on
                self.assertIn("warning EV320: ", self.run_config(verb, TF_CONFIG=text, expect=expect).stdout)
                said = json.loads(self.run_config(verb, "--json", TF_CONFIG=text, expect=expect).stdout)
                self.assertEqual([f["code"] for f in said["findings"]], ["EV320"])
        self.assertNotIn("EV320", self.run_config("show", TF_CONFIG=text, EVERSTEP_RESOLVER="alone").stdout)
        misspelt = GOOD.replace("cluster", "clusters")
        for verb in ("check", "show"):
            self.assertIn("error EV119: ", self.run_config(verb, TF_CONFIG=misspelt, expect=78).stdout)

    def test_help_has_examples(self):
        for words in ((), ("show",), ("check",), ("make",)):
            said = self.run_config(*words, "--help").stdout
            self.assertIn("Examples:\n  everstep config ", said)
        self.assertRegex(ev.run([ev.EVERSTEP, "--help"]).stdout, r"Clusters:\n  config ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
