"""rooms.py - includes and calls go one way only.

The table says which rooms the tree has and what each may use. A file belongs to the room with
the longest name that its path begins with (NAME/, or NAME where the table says NAME*). An include of a header, and a call of a function (or
a use of a variable) that another room defines, must be in the table; what is not in it is
against the direction.
"""
import json
import os
import re
import subprocess

# room                 what it may include and call beside itself and base; a header: include only
ROOMS = {
    'base':              '',
    'trace':             'base',
    'inject':            'base trace',
    'net':               'base trace inject',
    'odp':               'base trace inject',
    'emu':               'base net odp trace inject',
    'check/ids.h':       '',
    'check':             'base trace check/ids.h verbs/engine/checker.h verbs/host/libc.h verbs/preload',
    'verbs/host':        'base net odp trace inject emu/hca.h emu/limits.h check/ids.h',
    'verbs/netlink':      'base verbs/host net trace emu/limits.h emu/hca.h',
    'verbs/engine':      'base verbs/host emu net odp trace inject',
    'verbs/uverbs':      'base verbs/engine verbs/host emu net odp trace inject',
    'verbs/ucma/will_*': 'base net emu/cm_mad.h verbs/ucma/will.h',
    'verbs/ucma':        'base verbs/ucma/will_* verbs/engine verbs/host emu net odp trace inject',
    'verbs/preload':     'base verbs/netlink verbs/uverbs verbs/ucma verbs/engine verbs/host emu net odp trace inject',
    'tools':             'base verbs/ucma/will_* verbs/ucma/will.h verbs/host net trace inject check/ids.h',
}

# These stand outside and may use everything.
OUTSIDE = ('tests', 'examples')

# What takes the place of functions of others: a call of these names from inside goes to libc
# (verbs/preload/own_calls.c), so it is no call of the room that interposes.
INTERPOSED = ('verbs/preload/interposed.txt', 'check/interposed.txt')

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SOURCE = ('.c', '.h', '.S')


def room_of(path, rooms):
    """The room of a path below the root of the tree, or None"""
    inside = [r for r in rooms if path.startswith(r[:-1] if r[-1] == '*' else r + '/')]
    return max(inside, key=len, default=None)


def may_include(room, header, rooms):
    owner = room_of(header, rooms)
    if owner == room:
        return True
    if header.endswith('internal.h'):
        return False
    return owner in rooms[room].split() or header in rooms[room].split()


def sources(root):
    """All C and assembler files, as paths below the root"""
    for where, dirs, files in os.walk(root):
        dirs[:] = [d for d in dirs if not d.startswith('.') and
                   not (where == root and d.startswith('build')) and
                   not os.path.exists(os.path.join(where, d, 'build.ninja'))]
        for f in files:
            if f.endswith(SOURCE):
                yield os.path.relpath(os.path.join(where, f), root)


def header_path(root, source, name):
    """What #include "name" in source means, as a path below the root"""
    near = os.path.normpath(os.path.join(os.path.dirname(source), name))
    return near if os.path.exists(os.path.join(root, near)) else os.path.normpath(name)


def check_includes(root, rooms=ROOMS):
    """Sentences, one for each include against the direction"""
    bad = []
    for source in sorted(sources(root)):
        if source.split('/')[0] in OUTSIDE:
            continue
        room = room_of(source, rooms)
        if not room:
            bad.append(f'{source} is in no room')
            continue
        with open(os.path.join(root, source), encoding='utf-8') as f:
            names = INCLUDE.findall(f.read())
        for name in names:
            header = header_path(root, source, name)
            if not may_include(room, header, rooms):
                bad.append(f'{source} includes {header}')
    return bad


def objects(root, build):
    """(source below the root, object file) of each compilation of the build that is not a test's"""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as f:
        for c in json.load(f):
            source = os.path.realpath(os.path.join(c['directory'], c['file']))
            obj = os.path.join(c['directory'], c['output'])
            if os.path.relpath(obj, build).split(os.sep)[0] not in OUTSIDE:
                yield os.path.relpath(source, os.path.realpath(root)), obj


def symbols(objs):
    """What each of the object files defines and what it uses of others: {object: (names, names)}"""
    out = subprocess.run(['nm', '-A', '-P', *objs], check=True, capture_output=True, text=True).stdout
    found = {obj: (set(), set()) for obj in objs}
    for line in out.splitlines():
        obj, name, kind = re.match(r'(.*): (\S+) (\S)', line).groups()
        if kind in 'TDBRCVWi':
            found[obj][0].add(name)
        elif kind in 'Uwv':
            found[obj][1].add(name)
    return found


def interposed(root):
    """What programs call by names of libc and libibverbs"""
    names = set()
    for path in INTERPOSED:
        path = os.path.join(root, path)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                names |= set(f.read().split())
    return names


def check_calls(root, build, rooms=ROOMS, crossings=None):
    """Sentences, one for each call against the direction; crossings gets all pairs of rooms"""
    taken = interposed(root)
    files = [(source, room_of(source, rooms), obj) for source, obj in objects(root, build)
             if room_of(source, rooms)]
    found = symbols([obj for _, _, obj in files])
    owners = {}
    for source, room, obj in files:
        for name in found[obj][0] - taken:
            owners.setdefault(name, {})[room] = source
    bad = []
    for source, room, obj in files:
        for name in found[obj][1] & owners.keys():
            to = owners[name]
            if crossings is not None:
                crossings.update((room, r) for r in to)
            if room in to or any(r in rooms[room].split() for r in to):
                continue
            bad.append(f'{source} calls {name}, which is in {" and ".join(sorted(to.values()))}')
    return sorted(set(bad))
