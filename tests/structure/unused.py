"""unused.py - what a file of the product gives to others, another file of the product takes.

A function or variable with external linkage that only its own file uses should be static. One
that only tests use is no part of the product, or something forgets to use it. Looked up in the
object files of a build.
"""
import os

import rooms

# Who else may use a name: the beginning of the name, and why
EXCEPTIONS = {
    'main': 'the C library calls it',
    'urxe_': 'the interface of the library to programs',
    'ibv_exp_': 'the interface of the library to programs',
    '__wrap_': 'the linker lets calls of libc lead there (own_calls.c)',
    'areas_cover': 'what a set of addresses holds: for tests',
    'guard_restorer': 'written in assembler, its own file takes its address',
    'net_port_stats': 'a port without a recorder: for tests',
    'odp_domain_counters': 'page tables without a recorder: for tests',
    'odp_domain_each': 'page tables without a recorder: for tests',
    'recorder_': 'of trace/: a recorder, of which rooms use what they need',
    'report_expand': 'who records to a file names it by the same pattern',
    'trace_': 'of trace/: a reader, of which rooms use what they need',
}


def interposed(root):
    """What programs call by names of libc and libibverbs"""
    path = os.path.join(root, rooms.INTERPOSED)
    if not os.path.exists(path):
        return set()
    with open(path, encoding='utf-8') as f:
        return set(f.read().split())


def check(root, build):
    """Sentences, one for each name that no other file uses"""
    files = [(source, obj) for source, obj in rooms.objects(root, build)
             if rooms.room_of(source, rooms.ROOMS)]
    found = rooms.symbols([obj for _, obj in files])
    users = {}
    for source, obj in files:
        for name in found[obj][1]:
            users.setdefault(name, set()).add(source)
    used_elsewhere = interposed(root)
    bad = set()
    for source, obj in files:
        for name in found[obj][0] - used_elsewhere:
            if not name.startswith(tuple(EXCEPTIONS)) and not users.get(name, set()) - {source}:
                bad.add(f'{source} defines {name}, which no other file of the product uses')
    return sorted(bad)
