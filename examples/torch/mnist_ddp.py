#!/usr/bin/env python3
# examples: MNIST by torch on several processes, the classic script. It knows nothing of who starts it:
# RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which process it is; a checkpoint takes it back.
import argparse
import gzip
import os
import pathlib
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DATA = pathlib.Path(__file__).resolve().parent.parent / "mnist" / "data"


def idx(path):
    """The array in a gzipped IDX file of bytes."""
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def mnist(directory, count):
    images = idx(directory / "train-images-idx3-ubyte.gz")[:count]
    labels = idx(directory / "train-labels-idx1-ubyte.gz")[:count]
    return torch.from_numpy(images.astype(np.float32) / 255), torch.from_numpy(labels.astype(np.int64))


def save(path, model, optimizer, step):
    """All of it or nothing: written beside, then renamed."""
    beside = path.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, beside)
    os.replace(beside, path)


def restore(path, model, optimizer):
    """The step to go on with."""
    if not path.exists():
        return 0
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="directory of the IDX files")
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="file: the same for all")
    parser.add_argument("--images", type=int, default=60000, help="how many of them")
    parser.add_argument("--batch", type=int, default=128, help="of all processes together")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--save-every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--log-every", type=int, default=10, help="steps between lines")
    parser.add_argument("--delay", type=float, default=0, help="seconds of sleep after each step")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // size))
    torch.manual_seed(7)
    images, labels = mnist(args.data, args.images)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(),
                                torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters())
    first = restore(args.checkpoint, model, optimizer)
    parallel = DistributedDataParallel(model)
    loss_of = torch.nn.CrossEntropyLoss()
    per_epoch = len(images) // args.batch
    if rank == 0 and first > 0:
        print(f"{time.time():.3f} goes on after step {first}", flush=True)
    for step in range(first, args.epochs * per_epoch):
        epoch, at = divmod(step, per_epoch)
        if at == 0 or step == first:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        mine = order[at * args.batch:(at + 1) * args.batch][rank::size]
        optimizer.zero_grad()
        loss = loss_of(parallel(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % args.log_every == 0:
            print(f"{time.time():.3f} epoch {epoch} step {step + 1} loss {loss.item():.4f}", flush=True)
        if rank == 0 and (step + 1) % args.save_every == 0:
            save(args.checkpoint, model, optimizer, step + 1)
        time.sleep(args.delay)
    dist.barrier()
    if rank == 0:
        with torch.no_grad():
            right = (model(images).argmax(1) == labels).float().mean().item()
        print(f"done: accuracy {right:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
