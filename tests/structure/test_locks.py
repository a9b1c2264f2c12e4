#!/usr/bin/env python3
"""Locks are those of base/lock.h: a thread that is cancelled leaves none of them locked.

usage: test_locks.py SOURCE-ROOT
"""
import os
import re
import sys
import unittest

import rooms

ROOT = sys.argv[1]
HELPER = 'base/lock.h'

# What locks, or waits, by itself: a thread may be cancelled while it has such a lock.
BARE = re.compile(r'\b(?:pthread_(?:mutex|rwlock|spin)_\w*lock|pthread_cond_\w*wait|(?:mtx|cnd)_\w*(?:lock|wait)|'
                  r'sem_\w*wait|pthread_barrier_wait|lockf)\b')

# file: the lock, and why no thread can be cancelled while it holds it
EXCEPTIONS = {
    # Taken with all signals blocked, by handlers of signals, too, which must not touch the
    # cancellation state of what they interrupted. No cancellation point is reached under it.
    'odp/guard.c': 'chain_lock',
}


def without_comments(text):
    return re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group(0).count('\n'), text, flags=re.S)


def bare_locks(path, text):
    """Sentences, one for each place"""
    bad = []
    for number, line in enumerate(without_comments(text).split('\n'), 1):
        found = BARE.search(line)
        if found and not (path in EXCEPTIONS and f'(&{EXCEPTIONS[path]})' in line):
            bad.append(f'{path}:{number}: {found.group(0)} instead of {HELPER}')
    return bad


def product():
    """Path and text of each source of the product"""
    for path in rooms.sources(ROOT):
        if rooms.room_of(path, rooms.ROOMS) and path != HELPER:
            with open(os.path.join(ROOT, path), encoding='utf-8') as f:
                yield path, f.read()


class Locks(unittest.TestCase):
    def test_all_are_of_the_helper(self):
        bad = []
        for path, text in product():
            bad += bare_locks(path, text)
        self.assertEqual(bad, [])

    def test_exceptions_are_in_use(self):
        texts = dict(product())
        for path, lock in EXCEPTIONS.items():
            self.assertRegex(texts.get(path, ''), r'pthread_mutex_lock\(&' + lock + r'\)')

    def test_a_bare_lock_is_found(self):
        for call in ('pthread_mutex_lock(&l)', 'pthread_mutex_trylock(&l)', 'pthread_cond_wait(&c, &l)',
                     'pthread_cond_timedwait(&c, &l, &t)', 'pthread_rwlock_rdlock(&l)', 'mtx_lock(&l)', 'sem_wait(&s)'):
            self.assertEqual(len(bare_locks('net/some.c', f'/* two\n * lines */\n\t{call};\n')), 1, call)
        self.assertEqual(len(bare_locks('odp/guard.c', '\tpthread_mutex_lock(&other);\n')), 1)

    def test_what_is_no_lock_is_not(self):
        self.assertEqual(bare_locks('net/some.c', '/* pthread_mutex_lock() is not\n * used */ lock_take(&l);\n'), [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
