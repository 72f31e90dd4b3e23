# tests: agents of two hosts (network namespaces) over IPv6, and by the interface that the environment names.
# Exits 77 where namespaces cannot be made.
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import everstep as ev
from hosts import TwoHosts

# Greets every other task at the address that TF_CONFIG has for it, and waits to be greeted by each.
GREET = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
workers, me = config["cluster"]["worker"], config["task"]["index"]
def parts(address):
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)
listener = socket.create_server(parts(workers[me]), family=socket.AF_INET6)
listener.settimeout(60)
deadline = time.monotonic() + 60
for there in workers[:me] + workers[me + 1:]:
    while True:
        try:
            socket.create_connection(parts(there), timeout=5).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
for _ in workers[1:]:
    listener.accept()
print("task", me, "of", *workers, flush=True)
"""


class TwoIpv6Hosts(TwoHosts):
    """Both hosts have IPv6 addresses on their link, too."""

    def __enter__(self):
        super().__enter__()
        self.address6 = ["fd00:213:7::1", "fd00:213:7::2"]
        for host in (0, 1):
            # nodad: usable at once, instead of after a second of looking for another owner.
            self._ip("-n", self.names[host], "addr", "add", self.address6[host] + "/64",
                     "dev", self.links[host], "nodad")
        return self


class Agents(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.started = []
        self.addCleanup(self.stop)

    def stop(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def spawn(self, hosts, host, words, **variables):
        process = hosts.popen(host, [ev.EVERSTEP, *map(str, words)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, **variables})
        self.started.append(process)
        return process

    def coordinator(self, hosts, listen):
        process = self.spawn(hosts, 0, ["coordinator", "--listen", listen, "-n", 2, "--job-dir", self.dir / "job",
                                        "--insecure"])
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        shown = ""
        for line in process.stdout:
            shown += line
            if found := re.search(r"--coordinator (\S+)", line):
                break
        watchdog.cancel()
        self.assertTrue(found, shown)
        return process, found.group(1).strip("'")

    def greet(self, hosts, listen, **variables):
        """Two agents, one a host, whose tasks greet each other; what the agents printed."""
        coordinator, address = self.coordinator(hosts, listen)
        agents = [self.spawn(hosts, host, ["agent", "--coordinator", address, "--job-dir", self.dir / "job",
                                           "--insecure", "--", sys.executable, "-c", GREET], **variables)
                  for host in (0, 1)]
        outputs = [agent.communicate(timeout=120)[0] for agent in agents]
        told = coordinator.communicate(timeout=60)[0]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], outputs + [told])
        self.assertEqual(coordinator.returncode, 0, told)
        return outputs

    def check_greetings(self, hosts, outputs):
        text = "".join(outputs)
        for index in (0, 1):
            greeting = re.search(rf"task {index} of (\S+) (\S+)", text)
            self.assertTrue(greeting, text)
            self.assertEqual({re.sub(r":\d+$", "", address) for address in greeting.groups()},
                             {f"[{address}]" for address in hosts.address6})

    def test_over_ipv6_alone(self):
        with TwoIpv6Hosts() as hosts:
            self.check_greetings(hosts, self.greet(hosts, f"[{hosts.address6[0]}]:0"))

    def test_the_interface_and_the_family_that_the_environment_names(self):
        with TwoIpv6Hosts() as hosts:
            # The coordinator is reached over IPv4, and would have the tasks there, too.
            outputs = self.greet(hosts, f"{hosts.address[0]}:0", NCCL_SOCKET_IFNAME="^docker,lo",
                                 NCCL_SOCKET_FAMILY="AF_INET6")
            for host in (0, 1):
                self.assertIn(f"agent of {hosts.address6[host]} ", outputs[host])
            self.check_greetings(hosts, outputs)

    def test_gradients_cross_over_ipv6(self):
        bench, secret = str(ev.BIN / "bench_allreduce"), os.urandom(32).hex()
        with TwoIpv6Hosts() as hosts:
            addresses = ",".join(f"[{hosts.address6[host]}]:29800" for host in (0, 1))
            processes = [hosts.popen(host, [bench, "join", str(host), addresses, "100000", "5", secret],
                                     text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                         for host in (0, 1)]
            self.started += processes
            for process in processes:
                error = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, 0, error)
            for host in (0, 1):
                self.assertGreater(hosts.bytes_sent(host), 4 * 100000 * 5)

    def refuse(self, *words, code, message, **variables):
        result = ev.run([ev.EVERSTEP, "agent", "--coordinator", "127.0.0.1:1", "--job-dir", self.dir / "job",
                         *words, "--", "true"], env={**os.environ, **variables})
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(message, result.stderr)

    def test_a_pattern_that_matches_nothing_ends_with_78_and_lists_what_there_is(self):
        self.refuse(code=78, EVERSTEP_SOCKET_IFNAME="=none-such",
                    message="EV541: EVERSTEP_SOCKET_IFNAME: no interface that is up with an address other hosts "
                            "can use matches '=none-such'; there is: lo 127.0.0.1")

    def test_a_task_is_for_one_slot(self):
        self.refuse("--task", "worker", code=2, message="--task 'worker' is not a task")
        self.refuse("--task", "worker:0", "--slots", 2, code=2,
                    message="--task worker:0 is for one slot, not for 2")


if __name__ == "__main__":
    if not TwoHosts.available():
        print("network namespaces cannot be made here: needs root")
        sys.exit(77)
    unittest.main()
