# tests: fails when a test was skipped that tests/expected_skips.txt does not name.
import sys
import xml.etree.ElementTree


def main(report, expected_file):
    expected = set()
    for line in open(expected_file):
        line = line.split("#")[0].strip()
        if line:
            expected.add(line.split(":")[0].strip())
    skipped = {case.get("name") for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase")
               if case.find("skipped") is not None or case.get("status") == "notrun"}
    surprises = sorted(skipped - expected)
    for name in surprises:
        print(f"skipped without leave: {name}; name it in {expected_file} with the reason, or let it run")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
