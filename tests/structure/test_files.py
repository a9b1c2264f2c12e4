#!/usr/bin/env python3
"""Each file of C is short, begins with what it is for, and has the words that all have.

usage: test_files.py SOURCE-ROOT
"""
import os
import re
import sys
import unittest

import rooms
from small_tree import SmallTree

ROOT = sys.argv[1]
LONGEST = 1000  # lines
SCREEN = 60  # lines of a function; those of tests, which may be lists of cases, two

# The beginning of a file: what it is for, by its name where it has one to be known by
BEGINNING = re.compile(r'(?:#!.*\n)?/\*')
OTHER_IDIOM = re.compile(r'^\s+(?:int|long|ssize_t) (?:[^;(]*[ ,*])?rc\s*[=,;]', re.M)


# A name that says what happens has three words at least.
TEST_NAME = re.compile(r'^START_TEST\((\w+)\)', re.M)


def long_functions(lines, screen):
    """(line, length) of each function that does not fit on a screen"""
    start = None
    for number, line in enumerate(lines, 1):
        if line == '{':
            start = number
        elif line == '}' and start:
            if number - start + 1 > screen:
                yield start, number - start + 1
            start = None


def check(root):
    """Sentences, one for each fault"""
    bad = []
    for path in sorted(rooms.sources(root)):
        with open(os.path.join(root, path), encoding='utf-8') as f:
            text = f.read()
        lines = text.split('\n')
        if len(lines) - 1 > LONGEST:
            bad.append(f'{path} has {len(lines) - 1} lines')
        if not BEGINNING.match(text):
            bad.append(f'{path} does not begin with what it is for')
        for number, length in long_functions(lines, SCREEN if rooms.room_of(path, rooms.ROOMS) else 2 * SCREEN):
            bad.append(f'{path}:{number} begins a function of {length} lines')
        for name in TEST_NAME.findall(text):
            if name.count('_') < 2:
                bad.append(f'{path} has the test {name}: what happens in it?')
        if OTHER_IDIOM.search(text):
            bad.append(f'{path} calls what a function returns rc, not ret')
    return bad


class TheTree(unittest.TestCase):
    def test_files_are_as_they_should_be(self):
        self.assertEqual(check(ROOT), [])


class ASmallTree(SmallTree):
    def check(self, path, text):
        self.write(path, text)
        return check(self.root)

    def test_a_good_file_passes(self):
        self.assertEqual(self.check('net/a.c', '/* a.c - nothing */\nint f(void)\n{\n\tint ret = 1;\n}\n'), [])

    def test_a_file_that_is_too_long_is_found(self):
        self.assertEqual(self.check('net/a.c', '/* a.c */' + '\n' * LONGEST), [])
        self.assertEqual(self.check('net/a.c', '/* a.c */' + '\n' * (LONGEST + 1)), ['net/a.c has 1001 lines'])

    def test_a_file_that_does_not_say_what_it_is_for_is_found(self):
        self.assertEqual(self.check('tests/net/a.h', '#include <stdio.h>\n'),
                         ['tests/net/a.h does not begin with what it is for'])

    def test_a_function_that_does_not_fit_on_a_screen_is_found(self):
        body = '\tg();\n' * (SCREEN - 2)
        self.assertEqual(self.check('net/a.c', '/* a.c */\nvoid f(void)\n{\n' + body + '}\n'), [])
        self.assertEqual(self.check('net/a.c', '/* a.c */\nvoid f(void)\n{\n' + body + '\tg();\n}\n'),
                         ['net/a.c:3 begins a function of 61 lines'])

    def test_a_test_whose_name_is_no_sentence_is_found(self):
        self.assertEqual(self.check('tests/a.c', '/* a.c */\nSTART_TEST(it_does_so)\n'), [])
        self.assertEqual(self.check('tests/a.c', '/* a.c */\nSTART_TEST(garbage)\n'),
                         ['tests/a.c has the test garbage: what happens in it?'])

    def test_another_name_for_what_functions_return_is_found(self):
        self.assertEqual(self.check('net/a.c', '/* a.c */\nint f(void)\n{\n\tint fd, rc = 0;\n}\n'),
                         ['net/a.c calls what a function returns rc, not ret'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
