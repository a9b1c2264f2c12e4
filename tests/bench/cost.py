#!/usr/bin/env python3
"""Count what a message costs, both ends and its acknowledge, which no other load changes.

usage: cost.py VERBS SLOW_CLOCK URXE [--only TEXT]

One thread is both ends (bench-verbs --self). Instructions come from callgrind, with time that goes as
slowly as all else (slow_clock.c), or the HCA would think that the program hardly polls; locks, and how
many waited, are calls that callgrind has seen; system calls and context switches come from strace and
from the kernel. What a tool for it is missing is shown as -.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 300  # s, for one count
STRACED = 20  # times as many messages where no tool makes all slow
ROWS = (  # name, messages, options of `urxe run`, words of bench-verbs
    ("8 B WRITE", 10000, (), ("rate", "8")),
    ("64 B SEND", 10000, (), ("lat", "send", "64")),
    ("64 KiB WRITE", 400, (), ("bw", "write", "65536")),
    ("1 MiB WRITE", 40, (), ("bw", "write", "1048576")),
    ("8 B WRITE by sockets", 10000, ("--lanes", "no"), ("rate", "8")),
    ("64 B SEND by sockets", 10000, ("--lanes", "no"), ("lat", "send", "64")),
)
LOCK = ("pthread_mutex_lock", "pthread_mutex_trylock", "pthread_spin_lock")
WAIT = ("__lll_lock_wait", "lll_mutex_lock_optimized_wait")


def run(args, options, n, words, before=(), env=None):
    command = [args.urxe, "run", "--device=rxe0=lo", *options, "--", *before, args.verbs, "--self", "--messages", str(n), *words]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=True,
                          text=True).stdout


def callgrind(args, n, options, words):
    """instructions of the @n messages that are counted, and calls of all by function"""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        tool = ["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted*", f"--callgrind-out-file={out}"]
        slow = ["sh", "-c", f'LD_PRELOAD="{args.slow_clock}:$LD_PRELOAD" exec "$@"', "sh"]
        run(args, options, n, words, slow + tool)
        text = open(out, encoding="utf-8", errors="replace").read()
    names, calls, callee = {}, {}, None
    for line in text.splitlines():
        m = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
        if m and m[2]:
            names[m[1]] = m[2].split("@")[0]
        if m and line.startswith("cfn"):
            callee = names[m[1]]
        elif line.startswith("calls="):
            calls[callee] = calls.get(callee, 0) + int(line[6:].split()[0])
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1]), calls


def system_calls(args, n, options, words):
    n *= STRACED
    with tempfile.NamedTemporaryFile("r") as out:
        run(args, options, n, words, ["strace", "-f", "-c", "-o", out.name])
        lines = [line.split() for line in out.read().splitlines()]
    return sum(int(w[3]) for w in lines if len(w) >= 5 and w[3].isdigit() and w[-1] != "total")


def count(args, n, options, words):
    """A row: instructions, locks, waits, system calls, context switches a message"""
    row = ["-"] * 5
    if shutil.which("valgrind"):
        ir, first = callgrind(args, n, options, words)
        second = callgrind(args, 2 * n, options, words)[1]
        more = lambda names: sum(second.get(f, 0) - first.get(f, 0) for f in names) / (2 * n)
        row[:3] = f"{ir / n:.0f}", f"{more(LOCK):.2f}", f"{max(more(WAIT), 0):.3f}"
    if shutil.which("strace"):
        more = system_calls(args, 2 * n, options, words) - system_calls(args, n, options, words)
        row[3] = f"{more / (2 * n * STRACED):.3f}"
    row[4] = re.search(r"^switches (\S+)", run(args, options, n, words), re.M)[1]
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("verbs")
    p.add_argument("slow_clock")
    p.add_argument("urxe")
    p.add_argument("--only", default="")
    args = p.parse_args()
    for name in ("verbs", "slow_clock", "urxe"):
        setattr(args, name, os.path.abspath(getattr(args, name)))
    print(f"{'a message costs':24} {'instructions':>12} {'locks':>8} {'waited':>8} {'syscalls':>9} {'switches':>9}")
    failed = 0
    for name, n, options, words in ROWS:
        if args.only not in name:
            continue
        try:
            print(f"{name:24} {{:>12}} {{:>8}} {{:>8}} {{:>9}} {{:>9}}".format(*count(args, n, options, words)), flush=True)
        except (subprocess.SubprocessError, TypeError, ValueError) as e:
            print(f"{name:24} could not be counted: {e}")
            failed = 1
    return failed


sys.exit(main())
