# tests: two network namespaces as two hosts, joined by a virtual link. Needs root.
import json
import os
import shutil
import subprocess


class TwoHosts:
    """with TwoHosts() as hosts: hosts.popen(0, [...]); addresses are hosts.address[0] and [1]."""

    def __init__(self):
        tag = f"{os.getpid() % 100000}"
        self.names = [f"ev{tag}a", f"ev{tag}b"]
        self.links = [f"e{tag}a", f"e{tag}b"]
        self.address = ["10.213.7.1", "10.213.7.2"]

    @staticmethod
    def available():
        if os.geteuid() != 0 or not shutil.which("ip"):
            return False
        return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0

    def _ip(self, *words):
        subprocess.run(["ip", *words], check=True)

    def __enter__(self):
        for name in self.names:
            self._ip("netns", "add", name)
        self._ip("link", "add", self.links[0], "netns", self.names[0], "type", "veth",
                 "peer", "name", self.links[1], "netns", self.names[1])
        for i in (0, 1):
            self._ip("-n", self.names[i], "addr", "add", self.address[i] + "/24", "dev", self.links[i])
            self._ip("-n", self.names[i], "link", "set", self.links[i], "up")
            self._ip("-n", self.names[i], "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def command(self, host, command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def popen(self, host, command, **keywords):
        return subprocess.Popen(self.command(host, command), **keywords)

    def bytes_sent(self, host):
        """Bytes that left the host over its link to the other one."""
        out = subprocess.run(["ip", "-n", self.names[host], "-s", "-j", "link", "show", self.links[host]],
                             check=True, capture_output=True, text=True).stdout
        return json.loads(out)[0]["stats64"]["tx"]["bytes"]
