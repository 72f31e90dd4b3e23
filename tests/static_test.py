# tests: the command that is one file: it needs nothing of the system that it is started in.
import pathlib
import re
import sys
import tarfile
import tempfile
import unittest

import everstep as ev
import static_build


def setUpModule():
    global COMMAND, TARBALL, DEB
    static_build.build()
    COMMAND = static_build.BUILD / "bin" / "everstep"
    TARBALL, DEB = static_build.packages()


class OneFile(unittest.TestCase):
    def test_it_is_no_dynamic_executable(self):
        ldd = ev.run(["ldd", COMMAND])
        self.assertIn("not a dynamic executable", ldd.stdout + ldd.stderr)
        # The dynamic one is; else this test could not fail.
        self.assertNotIn("not a dynamic executable", ev.run(["ldd", ev.EVERSTEP]).stdout)

    def test_no_plug_in_of_the_c_library_can_be_loaded_for_a_name(self):
        symbols = ev.run(["nm", COMMAND]).stdout
        self.assertIn(" T getaddrinfo\n", symbols)
        self.assertEqual(re.findall(r" \w (__nss_\w+|_nss_\w+)\n", symbols), [])

    def test_install_puts_it_where_the_packages_do(self):
        with tempfile.TemporaryDirectory() as prefix:
            static_build.must(["cmake", "--install", static_build.BUILD, "--prefix", prefix, "--strip"])
            self.assertEqual(ev.run([f"{prefix}/bin/everstep", "--version"]).stdout,
                             ev.run([ev.EVERSTEP, "--version"]).stdout)
            python = pathlib.Path(ev.run([f"{prefix}/bin/everstep", "python-path"]).stdout.strip())
            self.assertEqual(python.resolve(), pathlib.Path(prefix).resolve() / "share/everstep/python")
            self.assertTrue((python / "everstep_heartbeat.py").exists())

    def test_the_tarball_and_the_deb_have_the_command_and_what_programs_import(self):
        with tarfile.open(TARBALL) as tar:
            files = {m.name.split("/", 1)[1] for m in tar if m.isfile()}
        deb = set(re.findall(r"^-\S+ .* \./usr/(\S+)$", ev.run(["dpkg-deb", "-c", DEB]).stdout, re.M))
        self.assertEqual(files, deb)
        self.assertIn("bin/everstep", files)
        self.assertIn("share/everstep/python/everstep_heartbeat.py", files)

    def test_the_static_deb_depends_on_nothing(self):
        self.assertEqual(ev.run(["dpkg-deb", "-f", DEB, "Depends"]).stdout.strip(), "")
        self.assertEqual(ev.run(["dpkg-deb", "-f", DEB, "Package"]).stdout.strip(), "everstep")


    def test_the_dynamic_deb_depends_on_the_libraries_that_it_needs(self):
        with tempfile.TemporaryDirectory() as directory:
            static_build.must(["cpack", "--config", ev.BIN.parent / "CPackConfig.cmake", "-G", "DEB",
                               "-B", directory])
            (deb,) = pathlib.Path(directory).glob("*.deb")
            depends = ev.run(["dpkg-deb", "-f", deb, "Depends"]).stdout
            for library in ("libc6 (>=", "libgrpc++1", "libprotobuf", "libc-ares2"):
                self.assertIn(library, depends)
            self.assertIn(" ./usr/bin/everstep\n", ev.run(["dpkg-deb", "-c", deb]).stdout)


class EmptyRoot(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = static_build.empty_root(directory.name, COMMAND)

    def inside(self, script, **environment):
        result = static_build.in_root(self.root, script, **environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def etc(self, **files):
        (self.root / "etc").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.root / "etc" / name).write_text(text)

    def test_it_starts(self):
        self.assertEqual(self.inside("inside /everstep --version"), ev.run([ev.EVERSTEP, "--version"]).stdout)

    def test_the_dynamic_one_does_not(self):
        static_build.must(["cp", ev.EVERSTEP, self.root / "dynamic"])
        self.assertNotEqual(static_build.in_root(self.root, "inside /dynamic --version").returncode, 0)

    def test_it_runs_a_job(self):
        out = self.inside("inside /everstep run -n 2 --job-dir /tmp/job -- /everstep --version")
        version = ev.run([ev.EVERSTEP, "--version"]).stdout.strip()
        self.assertEqual(sorted(out.splitlines()), [f"worker:0 | {version}", f"worker:1 | {version}"])

    def test_localhost_is_known_although_no_file_has_it(self):
        self.etc(hosts="10.9.8.7 node-7\n")
        out = self.inside("inside /everstep run -n 2 --listen localhost:29700 --job-dir /tmp/job -- /everstep --version")
        self.assertEqual(len(out.splitlines()), 2)

    def test_names_are_those_of_the_hosts_file_whatever_nsswitch_and_grpc_are_told(self):
        self.etc(hosts="10.9.8.7 node-7.cluster node-7\n")
        job = """inside /everstep coordinator -n 1 --listen node-7:29700 --insecure --job-dir /tmp/$1 &
inside /everstep agent --coordinator node-7:29700 --job-dir /tmp/$1 --insecure -- /everstep --version
wait $!
"""
        for tag, nsswitch, environment in (
                ("plain", "hosts: files dns\n", {}),
                ("native", "hosts: files dns\n", {"GRPC_DNS_RESOLVER": "native"}),
                ("plugins", "hosts: files mymachines myhostname sss dns\n", {"GRPC_DNS_RESOLVER": "native"})):
            with self.subTest(tag):
                self.etc(**{"nsswitch.conf": nsswitch})
                self.inside(f"set -- {tag}\n{job}", **environment)

    def test_an_unknown_name_is_told_and_not_waited_for(self):
        result = static_build.in_root(self.root, "inside /everstep run --listen node-8:29700 --insecure "
                                                 "--job-dir /tmp/job -- /everstep --version")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("node-8", result.stderr)


if __name__ == "__main__":
    if not static_build.can_make_roots():
        print("skipped: namespaces and roots cannot be made here: needs root")
        sys.exit(static_build.SKIPPED)
    unittest.main()
