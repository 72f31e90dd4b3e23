# bench: what Everstep costs one worker, against a bare libtorch loop doing the same maths.
#
#   python3 bench/step_overhead.py [--pairs 10] [--epochs 3] [--batch-size 256] [--core 0] [--json]
#
# Runs the two alternately, each pinned to the same core, and prints the median of their ratios. A time
# is the mean over all steps after the first epoch, as each program itself measures it.
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("EVERSTEP_BIN", ROOT / "build" / "bin"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--core", default="0")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = pathlib.Path(scratch)
        images = ROOT / "examples/mnist/data"
        for source, name in (("train", "train"), ("t10k", "test")):
            subprocess.run([BIN / "everstep", "records", "import", "idx",
                            "--images", images / f"{source}-images-idx3-ubyte.gz",
                            "--labels", images / f"{source}-labels-idx1-ubyte.gz",
                            "--output", data / f"{name}.tfrecord"], check=True, capture_output=True)
        pin = ["taskset", "-c", args.core]

        def ours(i):
            out = subprocess.run([BIN / "everstep", "run", "-n", "1", "--job-dir", data / f"job{i}", "--",
                                  *pin, BIN / "mnist", "--data", data, "--epochs", str(args.epochs + 1),
                                  "--batch-size", str(args.batch_size)],
                                 check=True, capture_output=True, text=True).stdout
            epochs = re.findall(r"Epoch .* - ([\d.]+) ms/step", out)[1:]
            return statistics.mean(float(ms) for ms in epochs)

        def bare():
            steps = -(-60000 // args.batch_size)  # of an epoch
            out = subprocess.run([*pin, BIN / "bench_bare_loop", "--data", images, "--warmup", str(steps),
                                  "--steps", str(steps * args.epochs), "--batch-size",
                                  str(args.batch_size)], check=True, capture_output=True, text=True).stdout
            return json.loads(out)["mean_ms"]

        pairs = []
        for i in range(args.pairs):
            a, b = (ours(i), bare()) if i % 2 == 0 else (lambda b: (ours(i), b))(bare())
            pairs.append((a, b))
            if not args.json:
                print(f"pair {i}: everstep {a:.3f} ms, bare loop {b:.3f} ms, ratio {a / b:.3f}", flush=True)
    result = {"everstep_ms": statistics.median(a for a, _ in pairs),
              "bare_ms": statistics.median(b for _, b in pairs),
              "median_ratio": statistics.median(a / b for a, b in pairs),
              "worst_ratio": max(a / b for a, b in pairs)}
    if args.json:
        print(json.dumps(result))
    else:
        print("median: everstep {everstep_ms:.3f} ms, bare loop {bare_ms:.3f} ms, ratio {median_ratio:.3f} "
              "(worst {worst_ratio:.3f})".format(**result))


if __name__ == "__main__":
    main()
