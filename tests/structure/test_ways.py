#!/usr/bin/env python3
"""Every file and function that docs/architecture.md, docs/contributing.md and the README of a room name
exists; and that README has all files of its room.

usage: test_ways.py SOURCE-ROOT
"""
import fnmatch
import glob
import os
import re
import sys
import unittest

import rooms
from small_tree import SmallTree

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


def room_folders(root):
    """The folders of the rooms, as paths below the root"""
    return sorted({os.path.dirname(s) for s in rooms.sources(root) if s.endswith('.c') and rooms.room_of(s, rooms.ROOMS)})


def readme_faults(root, room):
    """Sentences: names in the README of a room that are no file, and files that are in no name"""
    with open(os.path.join(root, room, 'README.md'), encoding='utf-8') as f:
        text = f.read()
    bad = missing(text, root)
    names = [n for n in NAME.findall(text) if re.fullmatch(r'[\w./*-]+', n)]
    for name in names:
        below = os.path.join(root, room, name)
        if not glob.glob(below) and not glob.glob(below + '.[chS]') and not glob.glob(os.path.join(root, name) + '*'):
            bad.append(name)
    for path in sorted(glob.glob(os.path.join(root, room, '*.c'))):
        stem = os.path.basename(path)[:-2]
        if not any(fnmatch.fnmatch(stem, n) or n == stem + '.c' for n in names):
            bad.append(f'{stem}.c is not there')
    return bad


class Readmes(unittest.TestCase):
    def test_each_room_has_one_that_tells_of_all_its_files(self):
        self.assertGreaterEqual(len(room_folders(ROOT)), 10)
        for room in room_folders(ROOT):
            self.assertEqual(readme_faults(ROOT, room), [], room)


class ASmallRoom(SmallTree):
    def test_what_is_wrong_in_a_readme_is_found(self):
        self.write('net/a.c')
        self.write('net/b_one.c')
        self.write('net/c.c')
        self.write('net/README.md', 'Owns `a`, `b_*`, `none`; `net/other.c`, `net/`, `urxe run`.\n')
        self.assertEqual(readme_faults(self.root, 'net'), ['net/other.c', 'none', 'net/other.c', 'c.c is not there'])


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
