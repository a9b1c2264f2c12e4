"""unused.py - what a file of the product gives to others, another file of the product takes.

A function or variable with external linkage that only its own file uses should be static. One
that only tests use is no part of the product, or something forgets to use it. Looked up in the
object files of a build.
"""
import os

import rooms

# Who else may use a name (what ends in _ is the beginning of some), and why
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
    'profile_parse': 'profiles that are no files: for tests',
}

PREFIXES = tuple(name for name in EXCEPTIONS if name.endswith('_'))


def unused(root, build):
    """(source, name) of what no other file uses, exceptions or not"""
    files = [(source, obj) for source, obj in rooms.objects(root, build)
             if rooms.room_of(source, rooms.ROOMS)]
    found = rooms.symbols([obj for _, obj in files])
    users = {}
    for source, obj in files:
        for name in found[obj][1]:
            users.setdefault(name, set()).add(source)
    used_elsewhere = rooms.interposed(root)
    for source, obj in files:
        for name in found[obj][0] - used_elsewhere:
            if not users.get(name, set()) - {source}:
                yield source, name


def check(root, build):
    """Sentences, one for each name that should be static, or go"""
    return sorted({f'{source} defines {name}, which no other file of the product uses'
                   for source, name in unused(root, build)
                   if not name.startswith(PREFIXES) and name not in EXCEPTIONS})
