#!/usr/bin/env python3
"""What outlives a call is known: each variable of a product file that lasts and may change is in the
list below, with the reason why it does not hang on an object that somebody passes on.

usage: test_state.py SOURCE-ROOT BUILD-ROOT COMPILER...
"""
import os
import re
import subprocess
import sys
import unittest

import rooms
from small_tree import SmallTree

ROOT, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]

SIGNALS = 'a signal handler gets no argument'
ORIGINALS = 'wrappers have the type of what they replace: no argument says which provider it is'
ONCE = 'of pthread_once(3)'
PROVIDER = 'the call of libibverbs in between passes nothing on'
FORK = 'a handler of fork(2) gets no argument'
LARGE = 'large, and neither called by threads nor twice at a time'
THREAD = 'a property of the thread, as its cancellation state is'
LOADED = 'the checker is a library that is there or not: of the process, and its wrappers get no argument'
LIBDW = 'what elfutils has read of files; a command runs once'
PROCESS = 'a property of the process, asked for before there is any object'

STATE = {
    'base/outside.c': {'barred': PROCESS},
    'base/lock.c': {'cancel_deferred': THREAD, 'cancel_before': THREAD},
    'net/port.c': {'where': 'outlives the port that could not be opened, for the message'},
    'odp/fault.c': {'never': 'what nobody sets: a fault that cannot be cancelled'},
    'odp/os_linux.c': {'others': 'the program has a userfaultfd, which may be older than the engine'},
    'odp/pool.c': {'self': 'the thread of the pool that runs'},
    'odp/guard.c': {
        'chains': SIGNALS, 'chain_lock': SIGNALS, 'installed': SIGNALS,
        'forking': SIGNALS, 'thread_ready': SIGNALS, 'frame': SIGNALS,
        'chained_info': SIGNALS, 'chained_frame': SIGNALS,
        'files': SIGNALS, 'interruptible': SIGNALS, 'interrupted': SIGNALS,
        'copy_routine': 'chosen once for the machine'},
    'inject/inject.c': {
        'inject_kinds': 'a point that no rule is about pays one load', 'rules': 'points are in all layers, which have no object in common',
        'own': 'the number of the thread'},
    'trace/recorder.c': {'this_thread': 'a ring of the thread: recording takes no lock'},
    'verbs/preload/heap.c': {'heap': 'the program may have one of its own: this is the library\'s'},
    'verbs/preload/own_memory.c': {'fail_in': 'malloc(3) gets no argument that says whose it is', 'once': ONCE},
    'verbs/preload/interpose_dl.c': {'urxe_dl_next': ORIGINALS},
    'verbs/host/paths.c': {'dir_once': ONCE, 'dir_value': PROCESS},
    'verbs/host/tree.c': {'once': ONCE},
    'verbs/host/sysfs.c': {'o': LARGE, 'devs': LARGE},
    'verbs/engine/bell.c': {'store': 'descriptors belong to the process, and outlive its engine', 'once': ONCE},
    'verbs/engine/recording.c': {'leads_there': LARGE},
    'verbs/engine/engine.c': {'root': 'the one that all the others hang on'},
    'verbs/engine/vfile.c': {
        'table': 'descriptors belong to the process, and outlive its engine',
        'orphan': 'an entry of the table', 'private_fd': 'an entry of the table', 'once': ONCE},
    'verbs/ucma/ucma_show.c': {'destroying': 'librdmacm, in between, passes nothing on'},
    'verbs/uverbs/ring_fork.c': {'lock': FORK, 'spaces': FORK, 'once': ONCE},
    'verbs/uverbs/uverbs_objects.c': {
        'xrcds': 'contexts share them, and the engine knows no uverbs',
        'uverbs_xrc_target': PROVIDER},
    'verbs/preload/context_hook.c': dict.fromkeys(
        ('poll_orig', 'post_recv_orig', 'post_srq_orig', 'create_cq_ex_orig', 'start_poll_orig', 'next_poll_orig', 'end_poll_orig',
         'post_orig', 'create_qp_ex_orig', 'next_poll_kind'), ORIGINALS) | {
        'ended': 'from next_poll to end_poll of the thread',
        'said': 'a child of fork(2) has no engine that could know it'},
    'verbs/preload/interpose_relative.c': {'cwd': PROCESS},
    'verbs/preload/interpose_netlink.c': {'all': 'descriptors belong to the process, which may have no engine'},
    'verbs/preload/poll_watch.c': {'known': 'what libibverbs hands to the wrapper of a poll has no room for it'},
    'verbs/preload/doorbell.c': {'doorbell': 'from the wrapper of a post to the write(2) of the provider, which has no room for it'},
    'verbs/preload/wr_hook.c': {'complete_orig': ORIGINALS},
    'verbs/preload/own_thread.c': {'own': 'threads belong to the process', 'once': ONCE},
    'verbs/preload/xrc_ex.c': {'builds': 'from ibv_wr_start(3) to the end of the thread\'s list'},
    'verbs/engine/checker.c': {'checker': 'attached by the loader, before there is an engine'},
    'check/start.c': {'lock': LOADED, 'inside': 'of free(3), which gets no argument', 'wanted': LOADED},
    'check/stacks.c': {'bucket': LOADED, 'kept': 'stacks of the thread'},
    'check/findings.c': dict.fromkeys(('findings', 'n_findings', 'expected', 'ignored', 'n_ignored'), LOADED),
    'check/ranges.c': dict.fromkeys(('bucket', 'unused', 'all', 'in_size', 'n_uses'), LOADED),
    'check/objects.c': dict.fromkeys(('bucket', 'asked', 'device', 'gone', 'n_gone'), LOADED),
    'check/remote.c': dict.fromkeys(('activity', 'any_word', 'last_writer', 'many_writers', 'n_open', 'open_writes', 'words'), LOADED),
    'check/targets.c': dict.fromkeys(('last_writer', 'many_writers', 'messages', 'next_target', 'targets'), LOADED),
    'check/frames.c': {'n_used': LOADED, 'asked': THREAD, 'mine': THREAD, 'n_ranges': LOADED, 'at_end': THREAD, 'ranges': LOADED},
    'check/watch.c': {**dict.fromkeys(('threads', 'denied', 'watching', 'n_watches', 'next_try', 'next_watch', 'next_look', 'place'), LOADED),
                      'nowhere': LOADED, 'asked': PROCESS, 'barred': PROCESS},
    'check/paging.c': {'pages': LOADED},
    'check/events.c': {'unacked': LOADED},
    'check/reads.c': {'now': LOADED, 'n_told': LOADED},
    'check/requests.c': {'unused': LOADED, 'all_shared': LOADED},
    'check/memory.c': {'kept': LOADED, 'n_kept': LOADED, 'looking_up': 'of free(3), which gets no argument'},
    'check/verbs.c': {'wrapped': ORIGINALS},
    'tools/symbols.c': {'debug_path': LIBDW, 'dwfl': LIBDW},
    'tools/doctor.c': {'all_there': 'a command runs once'},
    'tools/injected.c': {'rule': LARGE},
    'tools/checks.c': {'v': LARGE},
    'tools/run.c': {'o': LARGE, 'checks': LARGE},
    'tools/supervise.c': {'xfsz': 'a property of the process'},
    'tools/sweep.c': {'s': LARGE, 'order': LARGE, 'second': LARGE, 'out': LARGE, 'stopped': SIGNALS},
    'tools/sweep_world.c': {'order': LARGE},
    'tools/session.c': {'parents': 'a command runs once', 'own': 'a command runs once'},
}

# Where libc_next() of verbs/host/libc.h keeps the address of a function: no state
CACHE = 'slot_'


def variables(objs):
    """What object files have in sections that can be written to: {object: names}"""
    out = subprocess.run(['nm', '-A', '-f', 'sysv', *objs], check=True, capture_output=True, text=True).stdout
    names = {obj: set() for obj in objs}
    for line in out.splitlines():
        fields = [f.strip() for f in line.split('|')]
        if len(fields) != 7 or not re.match(r'\.t?(data|bss)|\*COM\*', fields[6]):
            continue
        if fields[6].startswith('.data.rel.ro') or fields[3] == 'SECTION':
            continue
        obj, symbol = fields[0].rsplit(':', 1)
        # static ones of functions are NAME.1 or FUNCTION.NAME.1; what else is there is the compiler's
        name = re.fullmatch(r'(?:\w+\.)?([a-z]\w*)(?:\.\d+)?', symbol)
        if name:
            names[obj].add(name.group(1))
    return names


def found(root, build):
    """{source: names}"""
    sources = {obj: source for source, obj in rooms.objects(root, build) if rooms.room_of(source, rooms.ROOMS)}
    all_of = {}
    for obj, names in variables(list(sources)).items():
        all_of.setdefault(sources[obj], set()).update(names - {CACHE})
    return all_of


class TheTree(unittest.TestCase):
    def test_all_state_is_listed(self):
        unknown = {source: names - STATE.get(source, {}).keys() for source, names in found(ROOT, BUILD).items()}
        self.assertEqual({source: names for source, names in unknown.items() if names}, {})

    def test_all_that_is_listed_is_there(self):
        for source, reasons in STATE.items():
            with open(os.path.join(ROOT, source), encoding='utf-8') as f:
                text = f.read()
            for name in reasons:
                self.assertRegex(text, rf'\b{name}\b', source)


class ASmallFile(SmallTree):
    compiler = CC

    def check(self, text):
        obj = self.compile('a.c', text, '-O2', '-fPIC')
        return sorted(variables([obj])[obj])

    def test_variables_are_found_wherever_they_are(self):
        self.assertEqual(self.check('int a = 1, b; static int c; static __thread int d; __thread int e = 1;\n'
                                    'int *f(void) { static int g; return g++ ? &c : &d; }\n'),
                         ['a', 'b', 'c', 'd', 'e', 'g'])

    def test_a_table_that_was_meant_to_be_constant_is_found(self):
        self.assertEqual(self.check('const char *table[] = {"a", "b"};\n'), ['table'])

    def test_constants_are_none(self):
        self.assertEqual(self.check('const int a = 1; extern const char *const b[]; \n'
                                    'const char *const b[] = {"a"}; int f(void);\n'
                                    'int (*const c)(void) = f; extern int d; int *g(void) { return &d; }\n'), [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
