#!/usr/bin/env python3
"""Includes and calls go one way; and what goes the other way is found.

usage: test_rooms.py SOURCE-ROOT BUILD-ROOT COMPILER...
"""
import sys
import unittest

import rooms
from small_tree import SmallTree

ROOT, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]


class TheTree(unittest.TestCase):
    def test_includes_go_one_way(self):
        self.assertEqual(rooms.check_includes(ROOT), [])

    def test_calls_go_one_way(self):
        crossings = set()
        self.assertEqual(rooms.check_calls(ROOT, BUILD, crossings=crossings), [])
        # objects without symbols would pass, too
        for pair in (('emu', 'odp'), ('verbs/engine', 'net'), ('verbs/preload', 'verbs/uverbs')):
            self.assertIn(pair, crossings)

    def test_no_two_rooms_use_each_other(self):
        for room, uses in rooms.ROOMS.items():
            for other in uses.split():
                self.assertNotIn(room, rooms.ROOMS.get(other, '').split(), f'{room} and {other}')


class ASmallTree(SmallTree):
    """Trees with a fault planted in them"""

    compiler = CC

    def includes(self):
        return rooms.check_includes(self.root)

    def calls(self):
        return rooms.check_calls(self.root, self.root)

    def test_an_include_downwards_is_allowed(self):
        self.write('net/port.h', '')
        self.write('emu/qp.c', '#include "net/port.h"\n#include <stdio.h>\n')
        self.assertEqual(self.includes(), [])

    def test_an_include_upwards_is_found(self):
        self.write('emu/qp.h', '')
        self.write('net/port.c', '  # include "emu/qp.h"\n')
        self.assertEqual(self.includes(), ['net/port.c includes emu/qp.h'])

    def test_an_include_between_the_two_faces_is_found(self):
        self.write('verbs/uverbs/uverbs.h', '')
        self.write('verbs/ucma/ucma.c', '#include "../uverbs/uverbs.h"\n')
        self.assertEqual(self.includes(), ['verbs/ucma/ucma.c includes verbs/uverbs/uverbs.h'])

    def test_a_room_of_one_header_allows_no_other_header(self):
        self.write('emu/qp.h', '')
        self.write('emu/hca.h', '')
        self.write('verbs/host/sysfs.c', '#include "emu/qp.h"\n#include "emu/hca.h"\n')
        self.assertEqual(self.includes(), ['verbs/host/sysfs.c includes emu/qp.h'])

    def test_an_internal_header_of_another_room_is_found(self):
        self.write('odp/internal.h', '')
        self.write('odp/fault.c', '#include "odp/internal.h"\n')
        self.write('emu/mr.c', '#include "odp/internal.h"\n')
        self.assertEqual(self.includes(), ['emu/mr.c includes odp/internal.h'])

    def test_a_file_in_no_room_is_found(self):
        self.write('misc/a.c', '')
        self.write('tests/a.c', '#include "emu/qp.h"\n')
        self.assertEqual(self.includes(), ['misc/a.c is in no room'])

    def test_a_call_upwards_is_found_without_an_include(self):
        self.compile('emu/qp.c', 'int emu_up(void);\nint emu_up(void) { return 1; }\n')
        self.compile('net/port.c', 'int emu_up(void);\nint net_f(void) { return emu_up(); }\n')
        self.assertEqual(self.calls(), ['net/port.c calls emu_up, which is in emu/qp.c'])

    def test_a_weak_reference_upwards_is_found(self):
        self.compile('emu/qp.c', 'int emu_up(void) { return 1; }\n')
        self.compile('net/port.c', '__attribute__((weak)) int emu_up(void);\n'
                     'int net_f(void) { return emu_up ? emu_up() : 0; }\n')
        self.assertEqual(self.calls(), ['net/port.c calls emu_up, which is in emu/qp.c'])

    def test_a_use_of_a_variable_upwards_is_found(self):
        self.compile('emu/qp.c', 'int emu_state;\n')
        self.compile('odp/fault.c', 'extern int emu_state;\nint odp_f(void) { return emu_state; }\n')
        self.assertEqual(self.calls(), ['odp/fault.c calls emu_state, which is in emu/qp.c'])

    def test_a_call_of_a_room_of_which_a_header_is_allowed_is_found(self):
        self.compile('emu/qp.c', 'int emu_up(void) { return 1; }\n')
        self.compile('verbs/host/sysfs.c', 'int emu_up(void);\nint f(void) { return emu_up(); }\n')
        self.assertEqual(self.calls(), ['verbs/host/sysfs.c calls emu_up, which is in emu/qp.c'])

    def test_tools_may_use_what_is_left_behind_but_no_other_file_of_the_room(self):
        self.compile('verbs/ucma/will_execute.c', 'int will(void) { return 1; }\n')
        self.compile('verbs/ucma/ucma.c', 'int ucma(void) { return 1; }\n')
        self.compile('tools/run.c', 'int will(void);\nint ucma(void);\n'
                     'int f(void) { return will() + ucma(); }\n')
        self.assertEqual(self.calls(), ['tools/run.c calls ucma, which is in verbs/ucma/ucma.c'])

    def test_a_call_of_an_interposed_function_is_one_of_libc(self):
        self.write('verbs/preload/interposed.txt', 'read\n')
        self.compile('verbs/preload/interpose_fd.c', 'int read(void) { return 1; }\n')
        self.compile('net/port.c', 'int read(void);\nint net_f(void) { return read(); }\n')
        self.assertEqual(self.calls(), [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
