#!/usr/bin/env python3
"""Description: each function of libibverbs and librdmacm can be made to fail, or is left out for a reason; none is both.

The functions are those that the headers and the libraries of this machine have."""
import ctypes.util
import fnmatch
import os
import re
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = os.path.join(HERE, '..', '..', 'inject', 'calls.c')
HEADERS = ['infiniband/verbs.h', 'rdma/rdma_cma.h', 'rdma/rdma_verbs.h']
LIBRARIES = ['ibverbs', 'rdmacm']
NAME = r'(?:ibv|rdma)_[a-z0-9_]+|mbps_to_ibv_rate|mult_to_ibv_rate'
NO_FUNCTIONS = {'ibv_wc_opcode'}  # a type before a parenthesis


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def with_point():
    return set(re.findall(r'\{"(\w+)", \{', read(CALLS)))


def left_out():
    """pattern -> reason"""
    found = {}
    for line in read(os.path.join(HERE, 'left-out.txt')).split('\n'):
        names, colon, reason = line.partition(':')
        if colon and not line.startswith('#'):
            found.update({name: reason.strip() for name in names.split()})
    return found


def of_headers():
    names = set()
    for header in HEADERS:
        path = subprocess.run(['cc', '-M', '-include', header, '-xc', '/dev/null'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout
        for file in path.split():
            if file.endswith(header):
                names |= set(re.findall(rf'\b({NAME})\s*\(', read(file)))
    return names - NO_FUNCTIONS


def of_libraries():
    names = set()
    for library in LIBRARIES:
        file = ctypes.util.find_library(library)
        listing = subprocess.run(['ldconfig', '-p'], stdout=subprocess.PIPE, text=True, check=False,
                                 env=dict(os.environ, PATH=os.environ['PATH'] + ':/sbin:/usr/sbin')).stdout
        path = next((line.split()[-1] for line in listing.split('\n') if file and file + ' ' in line), None)
        if path:
            symbols = subprocess.run(['nm', '-D', '--defined-only', path], stdout=subprocess.PIPE, text=True,
                                     check=False).stdout
            names |= {line.split()[-1].split('@')[0] for line in symbols.split('\n') if ' T ' in line}
    return {name for name in names if re.fullmatch(NAME, name)}


class Functions(unittest.TestCase):
    def setUp(self):
        self.points, self.out = with_point(), left_out()
        self.all = of_headers() | of_libraries()
        if not self.all:
            self.skipTest('no headers and no libraries')

    def why_out(self, name):
        """A name itself goes before a pattern"""
        return self.out.get(name) or next((r for p, r in self.out.items() if fnmatch.fnmatch(name, p)), None)

    def test_lists_are_read(self):
        self.assertGreater(len(self.points), 50)
        self.assertGreater(len(self.all), 150)

    def test_each_has_a_point_or_a_reason(self):
        self.assertEqual([n for n in sorted(self.all) if n not in self.points and not self.why_out(n)], [])

    def test_none_has_both(self):
        self.assertEqual(sorted(self.points & set(self.out)), [])

    def test_what_has_a_point_exists(self):
        self.assertEqual(sorted(self.points - self.all), [])


if __name__ == '__main__':
    unittest.main()
