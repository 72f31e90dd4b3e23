# tests: collectives on two hosts (network namespaces): the bytes really cross, once each way, and a host that
# vanishes is named. Exits 77 where namespaces cannot be made.
import os
import subprocess
import sys
import time
import unittest

import everstep as ev
from hosts import TwoHosts

BENCH = str(ev.BIN / "bench_allreduce")
SECRET = os.urandom(32).hex()


def start(hosts, per_host, floats, rounds):
    """One process a member, host by host; they find each other by the list of addresses."""
    addresses = [f"{hosts.address[h]}:{29800 + i}" for h in (0, 1) for i in range(per_host)]
    return [hosts.popen(rank // per_host,
                        [BENCH, "join", str(rank), ",".join(addresses), str(floats), str(rounds), SECRET],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(2 * per_host)]


class Hosts(unittest.TestCase):
    def test_each_number_crosses_once_each_way_whatever_the_members_of_a_host(self):
        # Powers of two: a host's replicas are one node of the tree, so one partial sum leaves it.
        for per_host in (1, 2):
            with self.subTest(per_host=per_host), TwoHosts() as hosts:
                floats, rounds = 1_000_000, 5
                processes = start(hosts, per_host, floats, rounds)
                for p in processes:
                    error = p.communicate(timeout=60)[1]
                    self.assertEqual(p.returncode, 0, error)
                ideal = 4 * floats * (rounds + 3)  # the bench warms up for 3 rounds
                for host in (0, 1):
                    sent = hosts.bytes_sent(host)
                    self.assertGreater(sent, ideal)
                    self.assertLess(sent, 1.1 * ideal)

    def test_a_host_that_vanishes_is_named_within_3_s_by_both_sides(self):
        with TwoHosts() as hosts:
            processes = start(hosts, 1, 2_000_000, 1_000_000)
            time.sleep(1)
            begin = time.monotonic()
            subprocess.run(["ip", "-n", hosts.names[1], "link", "set", hosts.links[1], "down"], check=True)
            for rank, p in enumerate(processes):
                error = p.communicate(timeout=60)[1]
                self.assertIn(f"worker:{1 - rank} (rank {1 - rank})", error)
            self.assertLess(time.monotonic() - begin, 3.5)


if __name__ == "__main__":
    if not TwoHosts.available():
        print("network namespaces cannot be made here: needs root")
        sys.exit(77)
    unittest.main()
