#!/usr/bin/env python3
# bench: how long a death costs: from `kill -9` of one of four workers to the first step of the restarted
# job, and of the whole job to that of the job run again. MNIST, a checkpoint every 50 steps.
#   bench/restart_time.py [ROUNDS]
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import everstep as ev  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10


def records(job, kind):
    try:
        lines = (job / "incidents.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [r for r in map(json.loads, lines) if r["kind"] == kind]


def wait_for(check, seconds=60):
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.001)


def trained(job, least):
    """Whether a checkpoint of at least this step is there: steps run."""
    return any(int(p.name.split("-")[1]) >= least for p in (job / "checkpoints").glob("step-*"))


def start(job, data, *options):
    return subprocess.Popen([ev.EVERSTEP, "run", "-n", "4", "--checkpoint-every-steps", "50", *options, "--",
                             ev.MNIST, "--data", data, "--epochs", "1000"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def newest(job):
    return max(int(p.name.split("-")[1]) for p in (job / "checkpoints").glob("step-*"))


def main():
    one, whole = [], []
    with ev.Scratch() as scratch:
        data = ev.mnist_data(scratch)
        job = pathlib.Path(scratch) / "job"
        process = start(job, data, "--job-dir", job, "--max-restarts", "1000")
        for done in range(1, ROUNDS + 1):
            before = newest(job) if (job / "checkpoints").is_dir() and trained(job, 1) else 0
            wait_for(lambda: trained(job, before + 100))
            workers = [p for p in ev.processes_of(str(job)) if ev.is_running(p, ev.MNIST)]
            killed = time.monotonic()
            os.kill(workers[done % len(workers)], signal.SIGKILL)
            wait_for(lambda: len(records(job, "training")) > done)
            one.append(time.monotonic() - killed)
        for done in range(1, ROUNDS + 1):
            views = len(records(job, "training"))
            ev.kill_all(scratch)
            process.wait()
            killed = time.monotonic()
            process = start(job, data, "--resume", job)
            wait_for(lambda: len(records(job, "training")) > views)
            whole.append(time.monotonic() - killed)
            before = newest(job)
            wait_for(lambda: trained(job, before + 50))
        ev.kill_all(scratch)
        process.wait()
    for name, times in (("one of four workers, back-off of 0.5 s included", one), ("the whole job", whole)):
        print(f"{name}: median {statistics.median(times):.2f} s, worst {max(times):.2f} s "
              f"of {len(times)} kills, until steps run again")


if __name__ == "__main__":
    main()
