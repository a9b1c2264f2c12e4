"""own_calls.py - no call from inside of liburxe reaches an interposer of liburxe.

Checked on a built library: a call that may be taken over by others, this library among them,
leaves a relocation with the name of the function.
"""
import re
import subprocess

# What programs call by these names belongs to urxe itself.
PUBLIC = ('urxe_', 'ibv_exp_')


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def dynamic(library, which):
    return {line.split()[0].split('@')[0] for line in lines('nm', '-D', '-P', which, library)}


def relocated(library):
    """The names of symbols that the loader looks up for the library"""
    found = (re.match(r'[0-9a-f]+ +[0-9a-f]+ +R_\S+ +[0-9a-f]+ +([A-Za-z_][^@ ]*)', line)
             for line in lines('readelf', '-rW', library))
    return {m.group(1) for m in found if m}


def check(library, interposed):
    """Sentences, one for each fault"""
    exported = dynamic(library, '--defined-only')
    listed = {name for name in exported if not name.startswith(PUBLIC)}
    bad = [f'{name} is exported, but not in the list of interposers' for name in listed - interposed]
    bad += [f'{name} is in the list of interposers, but not exported' for name in interposed - listed]
    bad += [f'a call of {name} from inside reaches the interposer' for name in relocated(library) & exported]
    bad += [f'{name} is missing' for name in dynamic(library, '--undefined-only')
            if name.startswith('__wrap_')]
    return sorted(bad)
