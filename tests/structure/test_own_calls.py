#!/usr/bin/env python3
"""What liburxe calls itself never comes back to its interposers; if it does, that is found.

usage: test_own_calls.py LIBURXE LIST-OF-INTERPOSERS COMPILER...
"""
import os
import subprocess
import sys
import unittest

import own_calls
from small_tree import SmallTree

LIB, LIST, CC = sys.argv[1], sys.argv[2], sys.argv[3:]

INTERPOSER = '#include <unistd.h>\nssize_t read(int fd, void *p, size_t n) { return -1; }\n'
CALLER = '#include <unistd.h>\nssize_t urxe_f(void *p) { return read(0, p, 1); }\n'
WRAP = ('#include <unistd.h>\n__attribute__((visibility("hidden")))\n'
        'ssize_t __wrap_read(int fd, void *p, size_t n);\n'
        'ssize_t __wrap_read(int fd, void *p, size_t n) { return 0; }\n')


class TheLibrary(unittest.TestCase):
    def test_own_calls_stay_own(self):
        with open(LIST, encoding='utf-8') as f:
            interposed = f.read().split()
        self.assertEqual(interposed, sorted(set(interposed)))
        self.assertEqual(own_calls.check(LIB, set(interposed)), [])

    def test_what_it_allocates_is_its_own(self):
        # free(3) and realloc(3) of what libc has allocated for it go to libc
        libc = {'malloc', 'calloc', 'strdup', 'strndup', 'reallocarray', 'posix_memalign', 'aligned_alloc',
                'memalign', 'valloc', 'asprintf', 'vasprintf', 'getline', 'getdelim'}
        sanitized = any(name.startswith(('__asan', '__tsan', '__ubsan')) for name in own_calls.relocated(LIB))
        self.assertTrue(sanitized or not own_calls.relocated(LIB) & libc)

    def test_there_is_something_to_look_at(self):
        self.assertIn('dlsym', own_calls.relocated(LIB))
        self.assertIn('read', own_calls.dynamic(LIB, '--defined-only'))


class ASmallLibrary(SmallTree):
    def check(self, *texts, flags=(), interposed=('read',)):
        sources = [self.write(f'{i}.c', text) for i, text in enumerate(texts)]
        lib = os.path.join(self.root, 'lib.so')
        subprocess.run([*CC, '-O2', '-w', '-shared', '-fPIC', *flags, '-o', lib, *sources], check=True)
        return own_calls.check(lib, set(interposed))

    def test_a_wrapped_call_passes(self):
        self.assertEqual(self.check(INTERPOSER, CALLER, WRAP, flags=['-Wl,--wrap=read']), [])

    def test_a_call_of_an_interposer_is_found(self):
        self.assertEqual(self.check(INTERPOSER, CALLER),
                         ['a call of read from inside reaches the interposer'])

    def test_the_address_of_an_interposer_is_found(self):
        table = '#include <unistd.h>\nssize_t (*urxe_table)(int, void *, size_t) = read;\n'
        self.assertEqual(self.check(INTERPOSER, table),
                         ['a call of read from inside reaches the interposer'])

    def test_a_weak_call_of_an_interposer_is_found(self):
        weak = '#include <unistd.h>\n#pragma weak read\n' + CALLER
        self.assertEqual(self.check(INTERPOSER, weak),
                         ['a call of read from inside reaches the interposer'])

    def test_a_call_without_a_way_to_libc_is_found(self):
        self.assertEqual(self.check(INTERPOSER, CALLER, flags=['-Wl,--wrap=read']),
                         ['__wrap_read is missing'])

    def test_an_interposer_that_is_not_listed_is_found(self):
        self.assertEqual(self.check(INTERPOSER, interposed=()),
                         ['read is exported, but not in the list of interposers'])

    def test_a_listed_interposer_that_is_not_there_is_found(self):
        self.assertEqual(self.check(INTERPOSER, interposed=('read', 'write')),
                         ['write is in the list of interposers, but not exported'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
