# tests: the static .deb in an older Debian, whose C library is too old for the dynamic command.
#
# That Debian comes from a mirror into the static build's directory, once. Only when it cannot be had
# there is the test skipped.
import os
import shutil
import subprocess
import sys
import unittest

import everstep as ev
import static_build

RELEASE = "bullseye"
NUMBER = "11."  # as its /etc/debian_version begins
MIRROR = os.environ.get("EVERSTEP_DEBIAN_MIRROR", "http://deb.debian.org/debian")
ROOT = static_build.BUILD / RELEASE
INSTALL_LIMIT = 600  # seconds


def have_release():
    """Why it cannot be had, or None."""
    ready = static_build.BUILD / f"{RELEASE}-ready"  # written last: a broken one is begun anew
    if ready.exists() and (ROOT / "bin" / "sh").exists():
        return None
    ready.unlink(missing_ok=True)
    shutil.rmtree(ROOT, ignore_errors=True)
    if not shutil.which("debootstrap"):
        sys.exit("there is no debootstrap; run scripts/setup.sh")
    static_build.BUILD.mkdir(exist_ok=True)
    try:
        made = subprocess.run(["debootstrap", "--variant=minbase", RELEASE, ROOT, MIRROR], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=INSTALL_LIMIT)
        why = None if made.returncode == 0 else made.stdout.strip()[-600:]
    except subprocess.TimeoutExpired:
        why = f"debootstrap took over {INSTALL_LIMIT} s"
    if why is not None:
        shutil.rmtree(ROOT, ignore_errors=True)
        return why
    ready.write_text(MIRROR)
    return None


class OlderRelease(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        static_build.build()
        _, deb = static_build.packages()
        shutil.rmtree(ROOT / "tmp" / "job", ignore_errors=True)  # an earlier run's
        shutil.copy(deb, ROOT / "tmp" / "everstep.deb")

    def inside(self, script):
        result = static_build.in_root(ROOT, script, PATH="/usr/sbin:/usr/bin:/sbin:/bin")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_it_is_older_than_the_dynamic_command(self):
        self.assertTrue(self.inside("inside cat /etc/debian_version").startswith(NUMBER))
        shutil.copy(ev.EVERSTEP, ROOT / "tmp" / "dynamic")
        self.addCleanup((ROOT / "tmp" / "dynamic").unlink)
        self.assertNotEqual(static_build.in_root(ROOT, "inside /tmp/dynamic --version").returncode, 0)

    def test_the_deb_is_installed_and_runs_a_job_and_is_removed_again(self):
        out = self.inside("inside dpkg -i /tmp/everstep.deb >/dev/null\n"
                          "inside everstep --version\n"
                          "inside cat /usr/share/everstep/python/everstep_heartbeat.py >/dev/null\n"
                          "inside everstep run -n 2 --job-dir /tmp/job -- cat /etc/debian_version\n"
                          "inside dpkg -r everstep >/dev/null\n")
        lines = out.splitlines()
        self.assertEqual(lines[0], ev.run([ev.EVERSTEP, "--version"]).stdout.strip())
        self.assertEqual(sorted(line[:len("worker:0 | 11.")] for line in lines[1:]),
                         [f"worker:0 | {NUMBER}", f"worker:1 | {NUMBER}"])
        self.assertFalse((ROOT / "usr" / "bin" / "everstep").exists())


if __name__ == "__main__":
    if not static_build.can_make_roots():
        print("skipped: namespaces and roots cannot be made here: needs root")
        sys.exit(static_build.SKIPPED)
    why = have_release()
    if why is not None:
        print(f"skipped: {RELEASE} cannot be had from {MIRROR}: {why}")
        sys.exit(static_build.SKIPPED)
    unittest.main()
