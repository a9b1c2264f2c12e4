#!/usr/bin/env python3
"""Every file and function that docs/architecture.md and docs/contributing.md name exists.

usage: test_ways.py SOURCE-ROOT
"""
import os
import re
import sys
import unittest

import rooms

ROOT = sys.argv[1]
NAME = re.compile(r'`([^`\n]+)`')
FILE = re.compile(r'(?:base|net|odp|emu|verbs|tools|trace|tests|docs|scripts)/[\w./-]+')
DOCS = ('docs/architecture.md', 'docs/contributing.md')
NEW = 'NAME'  # in the name of a file that the reader is told to make
FUNCTION = re.compile(r'(\w+)\(\)')


def missing(text, root):
    """What the text names in backquotes and the tree does not have"""
    code = ''
    for source in rooms.sources(root):
        with open(os.path.join(root, source), encoding='utf-8') as f:
            code += f.read()
    bad = []
    for name in NAME.findall(text):
        if FILE.fullmatch(name) and NEW not in name and not os.path.exists(os.path.join(root, name)):
            bad.append(name)
        function = FUNCTION.fullmatch(name)
        if function and function.group(1) != 'open' and \
                not re.search(r'^[\w *]*\b' + function.group(1) + r'\([^;{]*\)\s*\{', code, re.M):
            bad.append(name)
    return bad


class Architecture(unittest.TestCase):
    def test_what_it_names_exists(self):
        for doc in DOCS:
            with open(os.path.join(ROOT, doc), encoding='utf-8') as f:
                self.assertEqual(missing(f.read(), ROOT), [], doc)

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(missing('`emu/none.c`, `engine_none()`, `engine_enter()`, `emu/hca.c`, `net/NAME.c`', ROOT),
                         ['emu/none.c', 'engine_none()'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
