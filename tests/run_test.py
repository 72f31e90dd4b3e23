# tests: `everstep run`, `agent` and `coordinator` with programs of the shell: what is shown, the exit
# codes, and that nothing is left behind whoever is killed when.
import json
import os
import pathlib
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
import unittest

import everstep as ev

SEED = int(os.environ.get("EVERSTEP_TEST_SEED", random.randrange(1 << 30)))


def wait_for(check, seconds):
    """The first true value of check(), or its last one after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = ev.Scratch()
        self.dir = pathlib.Path(self.scratch.name)
        self.started = []

    def tearDown(self):
        try:
            self.assert_nothing_left(3)
        finally:
            for pid in ev.processes_of(self.scratch.name):
                os.kill(pid, signal.SIGKILL)
            for process in self.started:
                process.kill()
                process.communicate()
            self.scratch.cleanup()

    def assert_nothing_left(self, seconds):
        left = lambda: ev.processes_of(self.scratch.name)
        if not wait_for(lambda: not left(), seconds):
            shown = [pathlib.Path(f"/proc/{p}/cmdline").read_bytes() for p in left()]
            self.fail(f"processes left after {seconds} s: {shown}")

    def command(self, *options, script="true", job="job"):
        # The path in the arguments marks the programs too.
        return [ev.EVERSTEP, "run", "--job-dir", str(self.dir / job), *map(str, options), "--",
                "sh", "-c", script, str(self.dir)]

    def run_job(self, *options, script="true", job="job", timeout=60, **keywords):
        return ev.run(self.command(*options, script=script, job=job), timeout=timeout, **keywords)

    def start(self, *options, script, job="job", **keywords):
        process = subprocess.Popen(self.command(*options, script=script, job=job), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **keywords)
        self.started.append(process)
        return process

    def wait_output(self, process, text, seconds=10):
        """Reads standard output until `text` has come; what was read."""
        read = b""
        deadline = time.monotonic() + seconds
        while text.encode() not in read:
            ready = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0]
            chunk = os.read(process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                self.fail(f"no {text!r} in {read!r}")
            read += chunk
        return read.decode(errors="replace")

    def child_of(self, pid, word):
        """A living descendant whose arguments have `word` in them."""
        word = word.encode()
        parents = {}
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
                parents[int(p)] = int(stat[1])
            except OSError:
                pass
        for p in parents:
            above = p
            while above in parents and above != pid:
                above = parents[above]
            try:
                if above == pid and p != pid and word in pathlib.Path(f"/proc/{p}/cmdline").read_bytes():
                    return p
            except OSError:
                pass
        return None


class Output(Case):
    def test_lines_carry_the_task_and_keep_their_stream(self):
        result = self.run_job("-n", 2, script='echo "out $RANK"; echo "err $RANK" >&2')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["worker:0 | out 0", "worker:1 | out 1"])
        self.assertIn("worker:1 | err 1\n", result.stderr)

    def test_each_process_has_its_tf_config(self):
        result = self.run_job("-n", 3, script="echo $TF_CONFIG")
        configs = {}
        for line in result.stdout.splitlines():
            name, text = line.split(" | ", 1)
            configs[name] = json.loads(text)
        self.assertEqual(sorted(configs), ["worker:0", "worker:1", "worker:2"])
        clusters = [c["cluster"] for c in configs.values()]
        self.assertEqual(clusters[0], clusters[1])
        self.assertEqual(len(set(clusters[0]["worker"])), 3)
        self.assertEqual(configs["worker:2"]["task"], {"type": "worker", "index": 2})

    def test_the_start_block_and_the_end(self):
        result = self.run_job("-n", 3, "--replicas", 4, "--seed", 7)
        for word in (self.dir / "job", "7", "4 on 3 workers", "as long as 2 replicas", "done in"):
            self.assertIn(str(word), result.stderr)

    def test_any_bytes_and_lines_of_any_length(self):
        script = "head -c 300000 /dev/zero | tr '\\0' x; echo; printf 'a\\000\\377b\\n'; echo last"
        command = self.command(script=script)
        result = subprocess.run(command, capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.count(b"x"), 300000)
        self.assertIn(b"worker:0 | a\0\xffb\n", result.stdout)
        log, = (self.dir / "job/logs/worker_0").iterdir()
        self.assertEqual(log.read_bytes(), b"x" * 300000 + b"\na\0\xffb\nlast\n")

    def test_a_reader_that_does_not_read_does_not_stop_the_job(self):
        process = subprocess.Popen(self.command(script="for i in 1 2 3 4 5 6; do head -c 200000 /dev/zero |"
                                                       " tr '\\0' '\\n'; done; touch $0/ended"),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.started.append(process)
        self.assertTrue(wait_for((self.dir / "ended").exists, 20), "held up by its reader")
        self.assertEqual(process.wait(20), 0)

    def test_options_by_environment(self):
        environment = dict(os.environ, EVERSTEP_WORKERS="2", EVERSTEP_SEED="11", EVERSTEP_REPLICAS="6")
        result = self.run_job("--replicas", 4, script="echo $EVERSTEP_SEED $EVERSTEP_REPLICAS",
                              env=environment)
        self.assertEqual(sorted(result.stdout.splitlines()), ["worker:0 | 11 4", "worker:1 | 11 4"])
        resolved = json.loads((self.dir / "job/resolved.json").read_text())["options"]
        self.assertEqual(resolved["workers"], {"value": 2, "from": "environment"})
        self.assertEqual(resolved["replicas"], {"value": 4, "from": "flag"})

    def test_a_variable_that_nobody_knows_is_named_once(self):
        environment = dict(os.environ, EVERSTEP_WORKER="2")
        result = self.run_job(env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("EVERSTEP_WORKER is not"), 1, result.stderr)
        self.assertIn("did you mean EVERSTEP_WORKERS?", result.stderr)
        known = dict(os.environ, EVERSTEP_WORKERS="1", EVERSTEP_LISTEN="127.0.0.1:0", EVERSTEP_SECRET_FILE="x",
                     EVERSTEP_CONNECT_SECONDS="3")
        self.assertNotIn("warning", self.run_job(env=known, job="known").stderr)

    def test_help_and_version(self):
        self.assertRegex(ev.run([ev.EVERSTEP, "--version"]).stdout, r"^everstep \d+\.\d+\.\d+\n$")
        text = ev.run([ev.EVERSTEP, "run", "--help"]).stdout
        for word in ("-- PROGRAM", "--replicas", "EVERSTEP_PORT_RANGE", "Examples"):
            self.assertIn(word, text)
        self.assertEqual(ev.run([ev.EVERSTEP]).returncode, 2)


class ExitCodes(Case):
    def test_the_programs_own_code_with_its_last_lines_and_log(self):
        result = self.run_job("-n", 2, script='[ $RANK = 0 ] && sleep 20; echo "no oil" >&2; exit 9')
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertRegex(result.stderr, r"worker:1 exited with code 9")
        self.assertIn("  | no oil\n", result.stderr)
        log = re.search(r"  log  (.*)\n", result.stderr).group(1)
        self.assertEqual(pathlib.Path(log).read_text(), "no oil\n")

    def test_a_signal_is_128_and_its_number(self):
        result = self.run_job(script="kill -SEGV $$")
        self.assertEqual(result.returncode, 139, result.stderr)
        self.assertIn("SEGV", result.stderr)

    def test_one_that_printed_nothing_has_no_log_to_look_at(self):
        result = self.run_job("-n", 2, script='[ $RANK = 0 ] && echo here && sleep 20; exit 9')
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertIn("  log  none: worker:1 printed nothing\n", result.stderr)
        self.assertNotIn(".log\n", result.stderr)

    def test_what_hangs_on_when_another_fails_is_ended(self):
        result = self.run_job("-n", 2, "--grace-seconds", 0.3,
                              script='[ $RANK = 1 ] && exit 4; trap "" TERM; while :; do sleep 0.05; done')
        self.assertEqual(result.returncode, 4, result.stderr)

    def test_one_line_for_what_cannot_be_run(self):
        for options, program, code, word in (
                (["-n", "x"], ["true"], 2, "-n"), ([], ["/nowhere"], 78, "/nowhere"),
                (["--listen", "10.1.2.3"], ["true"], 2, "HOST:PORT"),
                (["--listen", "0.0.0.0:0"], ["true"], 78, "--insecure"),
                (["--listen", "0.0.0.0:0", "--insecure"], ["true"], 2, "--address"),
                (["--port-range", "5-4"], ["true"], 2, "--port-range")):
            with self.subTest(options=options):
                result = ev.run([ev.EVERSTEP, "run", *options, "--job-dir", self.dir / "x", "--", *program])
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(word, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertFalse((self.dir / "x").exists(), "nothing may have been made")

    def test_jobs_beside_each_other_do_not_meet(self):
        jobs = [self.start("-n", 3, script="echo $TF_CONFIG; sleep 0.5", job=f"job{i}") for i in range(4)]
        ports = []
        for job in jobs:
            out = job.communicate(timeout=60)[0]
            self.assertEqual(job.returncode, 0, out)
            line = re.search(r"worker:0 \| (\{.*\})", out).group(1)
            ports += json.loads(line)["cluster"]["worker"]
        self.assertEqual(len(set(ports)), 12)


class Hosts(Case):
    """Coordinator and agents of their own, on loopback."""

    def spawn(self, verb, *options, program=None):
        command = [ev.EVERSTEP, verb, *map(str, options)] + (["--", *program] if program else [])
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def coordinator(self, *options):
        process = self.spawn("coordinator", "--listen", "127.0.0.1:0", "--job-dir", self.dir / "job", *options)
        address = re.search(r"--coordinator (\S+)", self.wait_output(process, " -- PROGRAM")).group(1)
        return process, address

    def test_a_coordinator_and_two_agents(self):
        coordinator, address = self.coordinator("-n", 3)
        program = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE", str(self.dir)]
        agents = [self.spawn("agent", "--coordinator", address, "--job-dir", self.dir / "job",
                             "--slots", slots, program=program) for slots in (2, 1)]
        out = "".join(a.communicate(timeout=30)[0] for a in agents)
        for rank in range(3):
            self.assertIn(f"worker:{rank} | rank {rank} of 3\n", out)
        self.assertEqual([a.returncode for a in agents], [0, 0], out)
        self.assertIn("done", coordinator.communicate(timeout=30)[0])
        self.assertEqual(coordinator.returncode, 0)
        self.assertFalse((self.dir / "job/secret").exists(), "the secret is of no more use")

    def test_run_with_too_few_slots_waits_for_an_agent(self):
        run = self.start("-n", 2, "--slots", 1, script="echo rank $RANK")
        address = re.search(r"--coordinator (\S+)", self.wait_output(run, "--coordinator ")
                            + run.stdout.readline()).group(1)
        agent = self.spawn("agent", "--coordinator", address, "--job-dir", self.dir / "job",
                           program=["sh", "-c", "echo rank $RANK", str(self.dir)])
        out = run.communicate(timeout=30)[0] + agent.communicate(timeout=30)[0]
        self.assertEqual((run.returncode, agent.returncode), (0, 0), out)
        self.assertIn("worker:1 | rank 1\n", out)

    def test_the_line_for_another_host_can_be_copied(self):
        run = self.start("-n", 2, "--slots", 1, script="echo rank $RANK", job="a job")
        shown = self.wait_output(run, "on another host:\n")
        while "everstep agent" not in shown:
            shown += run.stdout.readline()
        line = re.search(r"everstep (agent --coordinator .*\n)", shown).group(1)
        agent = subprocess.run(ev.EVERSTEP + " " + line, shell=True, text=True, capture_output=True, timeout=30)
        out = run.communicate(timeout=30)[0] + agent.stdout
        self.assertEqual((run.returncode, agent.returncode), (0, 0), out + agent.stderr)
        self.assertIn("worker:1 | rank 1\n", out)

    def test_an_agent_says_at_once_that_it_waits_for_the_secret(self):
        result = ev.run([ev.EVERSTEP, "agent", "--coordinator", "127.0.0.1:1", "--connect-seconds", "1",
                         "--job-dir", self.dir / "wrong", "--", "true"])
        self.assertEqual(result.returncode, 78, result.stderr)
        first, last = result.stderr.splitlines()
        self.assertIn(f"waiting up to 1 s for the job's secret {self.dir}/wrong/secret", first)
        self.assertIn("is this the job's --job-dir?", last)

    def test_an_agents_help_gives_no_default_that_is_not_there(self):
        self.assertNotIn("runs/PROGRAM-TIME", ev.run([ev.EVERSTEP, "agent", "--help"]).stdout)

    def test_another_secret_is_turned_away(self):
        coordinator, address = self.coordinator("-n", 1)
        (self.dir / "other").write_text("00" * 32 + "\n")
        agent = self.spawn("agent", "--coordinator", address, "--secret-file", self.dir / "other",
                           program=["true"])
        out = agent.communicate(timeout=40)[0]
        self.assertEqual(agent.returncode, 78, out)
        coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(coordinator.wait(10), 143)

    def test_an_agent_that_finds_nobody_says_where_it_looked(self):
        (self.dir / "secret").write_text("00" * 32 + "\n")
        start = time.monotonic()
        result = ev.run([ev.EVERSTEP, "agent", "--coordinator", "127.0.0.1:1", "--connect-seconds", "1",
                         "--secret-file", self.dir / "secret", "--", "true"])
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("127.0.0.1:1", result.stderr)
        self.assertLess(time.monotonic() - start, 5)


# Holds on against SIGTERM, has a child of its own, and another that has left its process group.
STUBBORN = """trap '' TERM INT HUP
sleep 1000 "$0" 2>/dev/null & sh -c 'trap "" TERM; sleep 1001 & while :; do sleep 0.1; done' "$0" &
setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' "$0" &
echo up; while :; do sleep 0.1; done"""
POLITE = "trap 'echo bye; exit 143' TERM; echo up; while :; do sleep 0.05; done"


class Ends(Case):
    def test_sigterm_asks_and_the_program_may_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                run = self.start("-n", 2, script=POLITE, job=number.name)
                self.wait_output(run, "up\nworker:")
                run.send_signal(number)
                out = run.communicate(timeout=20)[0]
                self.assertEqual(run.returncode, 143, out)
                self.assertEqual(out.count("| bye"), 2, out)

    def test_after_the_grace_it_is_killed(self):
        run = self.start("--grace-seconds", 0.5, script=STUBBORN)
        self.wait_output(run, "up\n")
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(15), 143)
        self.assert_nothing_left(1)

    def test_a_second_signal_after_two_seconds_ends_at_once(self):
        run = self.start("--grace-seconds", 60, script=STUBBORN)
        self.wait_output(run, "up\n")
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGTERM)  # too soon: the same wish
        with self.assertRaises(subprocess.TimeoutExpired):
            run.wait(2.2)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(5), 143)
        self.assert_nothing_left(1)

    def test_control_c_of_a_terminal_is_heard_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            # Programs in the background of this terminal are stopped when they write to it.
            os.execvp("sh", ["sh", "-c", 'stty tostop; exec "$@"', "sh", *self.command(script=POLITE)])
        try:
            read = b""
            while b"up" not in read:
                self.assertTrue(select.select([terminal], [], [], 10)[0], read)
                read += os.read(terminal, 65536)
            os.write(terminal, b"\x03")
            try:
                while select.select([terminal], [], [], 10)[0]:
                    chunk = os.read(terminal, 65536)
                    read += chunk
                    if not chunk:
                        break
            except OSError:  # how a terminal ends
                pass
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 143, read)
            self.assertIn(b"bye", read)
        finally:
            os.close(terminal)

    def test_what_a_program_leaves_behind_is_ended_with_the_job(self):
        result = self.run_job(
            script="""setsid sh -c 'while :; do sleep 0.1; done' "$0" & sleep 3.5; exit 0""")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_nothing_left(0.5)

    def test_killing_run_takes_all_with_it_within_two_seconds(self):
        for script in (STUBBORN, POLITE):
            run = self.start("-n", 2, script=script, job=f"job{len(self.started)}")
            self.wait_output(run, "up\n")
            run.kill()
            self.assert_nothing_left(2)

    def test_killing_its_whole_process_group_as_well(self):
        run = self.start(script=STUBBORN, start_new_session=True)
        self.wait_output(run, "up\n")
        os.killpg(run.pid, signal.SIGKILL)
        self.assert_nothing_left(2)

    def test_killing_the_inner_process_is_cleaned_up_by_the_outer(self):
        run = self.start(script=STUBBORN)
        self.wait_output(run, "up\n")
        inner = self.child_of(run.pid, "run")
        os.kill(inner, signal.SIGKILL)
        out = run.communicate(timeout=10)[0]
        self.assertEqual(run.returncode, 137, out)
        self.assertIn("SIGKILL", out)
        self.assert_nothing_left(0.5)

    def test_killing_the_coordinator_ends_the_job_and_says_so(self):
        run = self.start("--grace-seconds", 1, script=POLITE)
        self.wait_output(run, "up\n")
        os.kill(self.child_of(run.pid, "coordinator"), signal.SIGKILL)
        out = run.communicate(timeout=20)[0]
        self.assertEqual(run.returncode, 75, out)
        self.assertIn("coordinator", out)
        self.assertIn("bye", out)

    def test_signals_at_random_moments_leave_nothing(self):
        dice = random.Random(SEED)
        print(f"seed {SEED}", file=sys.stderr)
        for i in range(30):
            script = dice.choice([STUBBORN, POLITE, "sleep 0.1", "exit 5"])
            number = dice.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
            after = dice.choice([0, 0.02, 0.05, 0.1, 0.2, 0.4]) * dice.random() * 2
            run = self.start("-n", dice.choice([1, 3]), "--grace-seconds", 0.5, script=script, job=f"r{i}")
            time.sleep(after)
            run.send_signal(number)
            out = run.communicate(timeout=20)[0]
            allowed = {143, -number, {"exit 5": 5, "sleep 0.1": 0}.get(script, 143)}
            self.assertIn(run.returncode, allowed, f"round {i}, {number.name} after {after:.3f} s\n{out}")
            self.assert_nothing_left(2.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
