#!/usr/bin/env python3
"""What files give to each other is used; and what is used by nobody, or by tests only, is found.

usage: test_unused.py SOURCE-ROOT BUILD-ROOT COMPILER...
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import unused

ROOT, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]


class TheTree(unittest.TestCase):
    def test_what_files_give_is_used(self):
        self.assertEqual(unused.check(ROOT, BUILD), [])


class ASmallTree(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = tmp.name
        self.commands = []

    def compile(self, path, text):
        source = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(source), exist_ok=True)
        with open(source, 'w', encoding='utf-8') as f:
            f.write(text)
        subprocess.run([*CC, '-w', '-c', '-o', source + '.o', source], check=True)
        self.commands.append({'directory': self.root, 'file': source, 'output': source + '.o'})
        with open(os.path.join(self.root, 'compile_commands.json'), 'w', encoding='utf-8') as f:
            json.dump(self.commands, f)

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
        with open(os.path.join(self.root, 'verbs/preload/interposed.txt'), 'w', encoding='utf-8') as f:
            f.write('read\n')
        self.assertEqual(self.check(), [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
