#!/usr/bin/env python3
"""What files give to each other is used; and what is used by nobody, or by tests only, is found.

usage: test_unused.py SOURCE-ROOT BUILD-ROOT COMPILER...
"""
import sys
import unittest

import unused
from small_tree import SmallTree

ROOT, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]


class TheTree(unittest.TestCase):
    def test_what_files_give_is_used(self):
        self.assertEqual(unused.check(ROOT, BUILD), [])

    def test_exceptions_are_in_use(self):
        names = {name for _, name in unused.unused(ROOT, BUILD)}
        for name in unused.EXCEPTIONS:
            self.assertTrue(name in names or name in unused.PREFIXES and any(n.startswith(name) for n in names), name)


class ASmallTree(SmallTree):
    compiler = CC

    def check(self):
        return unused.check(self.root, self.root)

    def test_what_another_file_calls_passes(self):
        self.compile('net/a.c', 'int net_f(void) { return 1; }\n')
        self.compile('emu/b.c', 'int net_f(void);\nint main(void) { return net_f(); }\n')
        self.assertEqual(self.check(), [])

    def test_what_only_its_own_file_calls_is_found(self):
        self.compile('net/a.c', 'int net_f(void) { return 1; }\nint main(void) { return net_f(); }\n')
        self.assertEqual(self.check(), ['net/a.c defines net_f, which no other file of the product uses'])

    def test_what_only_tests_call_is_found(self):
        self.compile('net/a.c', 'int net_f(void) { return 1; }\n')
        self.compile('tests/net/b.c', 'int net_f(void);\nint main(void) { return net_f(); }\n')
        self.assertEqual(self.check(), ['net/a.c defines net_f, which no other file of the product uses'])

    def test_a_variable_that_nobody_reads_is_found(self):
        self.compile('odp/a.c', 'int odp_state = 1;\n')
        self.assertEqual(self.check(), ['odp/a.c defines odp_state, which no other file of the product uses'])

    def test_what_programs_call_passes(self):
        self.compile('verbs/preload/a.c', 'int urxe_f(void) { return 1; }\nint read(void) { return 1; }\n')
        self.write('verbs/preload/interposed.txt', 'read\n')
        self.assertEqual(self.check(), [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
