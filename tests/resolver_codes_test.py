# tests: every code with which a resolver refuses is explained in docs/config-codes.md, once, and no other is.
import re
import unittest

import everstep as ev

DOCUMENT = ev.ROOT / "docs" / "config-codes.md"


class Codes(unittest.TestCase):
    def test_each_code_of_a_resolver_has_a_section_with_cause_and_cure(self):
        used = set()
        for path in (ev.ROOT / "src/everstep/cluster").glob("*.cc"):
            if not path.name.endswith("_test.cc"):
                used |= set(re.findall(r'"(EV5\d\d)"', path.read_text()))
        self.assertGreater(len(used), 10)
        sections = re.findall(r"^### (EV5\d\d): \S.*\n\n(?:Error|Warning)\. \S.*\n\nCure: \S.*\n", DOCUMENT.read_text(),
                              re.MULTILINE)
        self.assertEqual(sections, sorted(used))


if __name__ == "__main__":
    unittest.main()
