# tests: a program that knows nothing of Everstep: processes that take steps together as the members of a
# MultiWorkerMirroredStrategy do. Rank 0 (of TF_CONFIG) serves a barrier at its own address; a member that
# loses it fails with exit code 1. Rank 0 saves the step number now and then; all begin where it was saved.
#   gang.py DIR [--steps N] [--seconds S] [--save-every K] [--beat] [--act RANK:STEP:ACTION]...
# ACTION, taken once in the life of DIR: exit=CODE, kill, stop, sleep=SECONDS (in the middle of the step), spin.
import argparse
import json
import os
import pathlib
import signal
import socket
import struct
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("dir", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--seconds", type=float, default=0.05)
parser.add_argument("--save-every", type=int, default=10)
parser.add_argument("--save-as", default="model.ckpt")
parser.add_argument("--beat", action="store_true")
parser.add_argument("--act", action="append", default=[])
parser.add_argument("--at-start", default="")
parser.add_argument("--deaf", action="store_true", help="SIGTERM is not heard")
arguments = parser.parse_args()

config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
trainers = [("chief", i) for i in range(len(cluster.get("chief", [])))] + \
           [("worker", i) for i in range(len(cluster.get("worker", [])))]
me = (task["type"], task["index"])
name = f"{me[0]}-{me[1]}"
life = len(list(arguments.dir.glob(f"life-{name}-*")))
(arguments.dir / f"life-{name}-{life}").write_text(
    json.dumps({"environment": dict(os.environ), "pid": os.getpid(), "time": time.time()}))
if arguments.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if arguments.at_start.startswith("exit="):
    print("cannot begin: no such thing", file=sys.stderr)
    sys.exit(int(arguments.at_start[5:]))
if me not in trainers:  # an evaluator: looks on until it is told to leave
    while True:
        time.sleep(0.1)

rank = trainers.index(me)
saved = arguments.dir / arguments.save_as
step = int(saved.read_text().split()[0]) if saved.exists() else 0
# All begin with what rank 0 has: the others hear of it at the first barrier.


def act(at):
    for line in arguments.act:
        who, when, what = line.split(":")
        done = arguments.dir / f"acted-{who}-{when}-{what}"
        if (int(who), int(when)) != (rank, at) or done.exists():
            continue
        done.write_text("")
        verb, _, value = what.partition("=")
        if verb == "exit":
            print(f"{name} gives up at step {at}", file=sys.stderr, flush=True)
            sys.exit(int(value))
        elif verb == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif verb == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif verb == "sleep":
            the_bad_place(float(value))
        elif verb == "spin":
            end = time.monotonic() + float(value)
            while time.monotonic() < end:
                pass


def the_bad_place(seconds):
    time.sleep(seconds)


def beat(at):
    if arguments.beat:
        import everstep_heartbeat
        everstep_heartbeat.beat(step=at)


def endpoint(which):
    host, port = cluster[which[0]][which[1]].rsplit(":", 1)
    return host.strip("[]"), int(port)


def receive(connection):
    data = b""
    while len(data) < 8:
        part = connection.recv(8 - len(data))
        if not part:
            raise ConnectionError("a peer is gone")
        data += part
    return struct.unpack("<q", data)[0]


def serve():
    listener = socket.create_server(endpoint(me))
    peers = []
    while len(peers) < len(trainers) - 1:
        peers.append(listener.accept()[0])
    return peers


def join():
    deadline = time.monotonic() + 20
    while True:
        try:
            return [socket.create_connection(endpoint(trainers[0]))]
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def barrier(peers, value):
    """Rank 0's value, once all are here."""
    if rank == 0:
        for peer in peers:
            receive(peer)
        for peer in peers:
            peer.sendall(struct.pack("<q", value))
        return value
    peers[0].sendall(struct.pack("<q", value))
    return receive(peers[0])


def main():
    peers = serve() if rank == 0 else join()
    step = barrier(peers, int(saved.read_text().split()[0]) if saved.exists() else 0)
    while step < arguments.steps:
        act(step)
        time.sleep(arguments.seconds)
        barrier(peers, step)
        step += 1
        beat(step)
        with open(arguments.dir / f"steps-{name}", "a") as log:
            log.write(f"{step} {time.time()}\n")
        print(f"step {step}", flush=True)
        if rank == 0 and arguments.save_every and step % arguments.save_every == 0:
            new = saved.with_suffix(".new")
            new.write_text(f"{step} " + "x" * 100)
            new.replace(saved)


try:
    main()
except OSError as error:
    print(f"{name}: {error}", file=sys.stderr, flush=True)
    sys.exit(1)
