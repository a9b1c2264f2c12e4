#!/usr/bin/env python3
"""Run the benchmarks side by side and print ratios against the goals.

usage: report.py RAW VERBS ODP THREADS URXE [--rounds N] [--only TEXT] [--option=OPT for `urxe run`]...

Each row pairs a measure over the emulated HCA with its limit on this machine, measured in turn
in the same run (A B A B ...), and prints the medians and the median of the ratios pair by pair.
A benchmark informs; it never fails for being slow, only when a measure cannot be taken.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

TIMEOUT = 120  # s, for one measure


class Bench:
    def __init__(self, args):
        self.raw_bin, self.verbs_bin, self.odp_bin, self.urxe = args.raw, args.verbs, args.odp, args.urxe
        self.threads_bin = args.threads
        self.options = args.option or []

    def value(self, command):
        out = subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT, check=True, text=True).stdout
        return float(out.split()[1])

    def raw(self, *words, pin=None):
        return self.value(self.pin(pin) + [self.raw_bin, *words])

    def verbs(self, *words, pin=None, options=()):
        return self.value(self.pin(pin) + [self.urxe, "run", *self.options, *options, "--", self.verbs_bin, *words])

    def odp(self, *words):
        return self.value([self.urxe, "run", *self.options, "--", self.odp_bin, *words])

    def threads(self, *words):
        return self.value([self.urxe, "run", *self.options, "--", self.threads_bin, *words])

    @staticmethod
    def pin(cpu):
        return ["taskset", "-c", cpu] if cpu else []


def rows(b):
    """name, unit, ours, limit, name of the limit, goal text, goal as a function of the ratio"""
    at_least = lambda g: (f">= {g}", lambda r: r >= g)
    at_most = lambda g: (f"<= {g}", lambda r: r <= g)
    for op in ("write", "read", "send"):
        yield (f"RC {op} 1 MiB", "GB/s", lambda op=op: b.verbs("bw", op, "1048576"),
               lambda: b.raw("bw", "4096"), "raw UDP", *at_least(0.70))
    for op in ("write", "read", "send"):
        yield (f"RC {op} 64 KiB", "GB/s", lambda op=op: b.verbs("bw", op, "65536"),
               lambda: b.raw("bw", "4096"), "raw UDP", *at_least(0.60))
    yield ("RC write 1 MiB, MTU 1024", "GB/s", lambda: b.verbs("bw", "write", "1048576", "--mtu", "1024"),
           lambda: b.raw("bw", "1024"), "raw UDP 1024", *at_least(0.50))
    # As between hosts: without the shared memory that processes of one host have
    sockets = ("--lanes", "no")
    yield ("RC write 1 MiB by sockets", "GB/s", lambda: b.verbs("bw", "write", "1048576", options=sockets),
           lambda: b.raw("bw", "4096"), "raw UDP", *at_least(0.60))
    yield ("RC write 1 MiB, MTU 1024, by sockets", "GB/s",
           lambda: b.verbs("bw", "write", "1048576", "--mtu", "1024", options=sockets),
           lambda: b.raw("bw", "1024"), "raw UDP 1024", *at_least(0.50))
    yield ("RC send 64 B, polling, by sockets", "us", lambda: b.verbs("lat", "send", "64", options=sockets),
           lambda: b.raw("lat", "poll"), "raw spin", *at_most(1.5))
    yield ("RC send 64 B, polling, 2 cores", "us", lambda: b.verbs("lat", "send", "64"),
           lambda: b.raw("lat", "poll"), "raw spin", *at_most(1.5))
    yield ("RC send 64 B, polling, 1 core", "us", lambda: b.verbs("lat", "send", "64", pin="0"),
           lambda: b.raw("lat", "poll", pin="0"), "raw spin, 1 core", *at_most(1.5))
    yield ("RC send 64 B, events", "us", lambda: b.verbs("lat", "send", "64", "--events"),
           lambda: b.raw("lat", "block"), "raw blocking", *at_most(1.3))
    yield ("RC write 8 B rate", "msg/s", lambda: b.verbs("rate", "8"),
           lambda: min(b.raw("rate", "8"), 1e6 / 0.6), "raw GSO (capped at 1.67 M)", *at_least(0.6))
    yield ("1 QP beside 10000 idle QPs and MRs", "GB/s",
           lambda: b.verbs("bw", "write", "65536", "--idle", "10000"),
           lambda: b.verbs("bw", "write", "65536"), "without", *at_least(0.95))
    for size, text in (("1048576", "1 MiB"), ("65536", "64 KiB")):
        yield (f"64 busy QPs, {text}", "GB/s", lambda size=size: b.verbs("bw", "write", size, "--qps", "64"),
               lambda size=size: b.verbs("bw", "write", size), "1 QP", *at_least(0.95))
    for how, words in (("polling", ()), ("events", ("events",))):
        yield (f"2 threads, {how}", "round trips/s", lambda words=words: b.threads("2", *words),
               lambda words=words: b.threads("1", *words), "1 thread", *at_least(1.0))
        yield (f"16 threads, {how}", "round trips/s", lambda words=words: b.threads("16", *words),
               lambda words=words: b.threads("2", *words), "2 threads", *at_least(1.0))
        yield (f"slowest of 16 threads, {how}", "of the fastest",
               lambda words=words: b.threads("fair", "16", *words), lambda: 1.0, "the fastest", *at_least(0.5))
    yield ("ODP warm, 1 MiB write", "GB/s", lambda: b.verbs("bw", "write", "1048576", "--odp"),
           lambda: b.verbs("bw", "write", "1048576"), "pinned", *at_least(0.97))
    yield ("prefetch of 64 MiB of cold pages", "ms", lambda: b.odp("prefetch", "64"),
           lambda: b.odp("populate", "64"), "MADV_POPULATE_WRITE", *at_most(1.15))
    yield ("first touch of a page, 8 B write", "us", lambda: b.odp("touch", "cold"),
           lambda: b.odp("touch", "prefetched"), "prefetched", "", lambda r: True)
    yield ("munmap of 16 pages in a page table", "us", lambda: b.odp("munmap", "odp"),
           lambda: b.odp("munmap", "plain"), "in none", "", lambda r: True)
    yield ("memory of an idle RC QP", "KiB", lambda: b.verbs("memory", "2000"),
           lambda: 16.0, "bound", *at_most(1.0))
    yield ("start: urxe run true", "ms", lambda: start_ms([b.urxe, "run", "true"]),
           lambda: start_ms(["true"]) + 5.0, "true + 5 ms", *at_most(1.0))


def start_ms(command):
    samples = []
    for _ in range(21):
        t = time.monotonic()
        subprocess.run(command, check=True)
        samples.append((time.monotonic() - t) * 1e3)
    return statistics.median(samples)


PORT = "13991"
UCX_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
UCX_SHM = {"UCX_TLS": "posix,sysv,cma,self"}


def ucx(test, size, n, env):
    """GB/s or us of ucx_perftest"""
    out = pair(["ucx_perftest", "-p", PORT], ["ucx_perftest", "127.0.0.1", "-p", PORT, "-t", test, "-s", size, "-n", n, "-f"], env)
    words = out.split("\n")[-1].split()
    return f"{float(words[2]):.3g} us" if "lat" in test else f"{float(words[4]) * 1.048576 / 1000:.3g} GB/s"


def fabric(size, n):
    """GB/s in one direction and us for half a round trip of fi_pingpong"""
    args = ["fi_pingpong", "-e", "msg", "-p", "tcp", "-I", n, "-S", size]
    words = pair(args + ["-B", PORT], args + ["-P", PORT, "127.0.0.1"], {}).split("\n")[-1].split()
    return f"{float(words[5]) / 1000:.3g} GB/s, {words[6]} us"


def pair(server, client, env):
    """What @client prints, with @server at the other end"""
    env = {**os.environ, **env}
    s = subprocess.Popen(server, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        return subprocess.run(client, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              timeout=TIMEOUT, check=True).stdout.strip()
    finally:
        s.kill()
        s.wait()


def others():
    """What a user would take instead, where it is installed"""
    for program, what, fn in (
        ("ucx_perftest", "UCX over tcp, tag 1 MiB", lambda: ucx("tag_bw", "1048576", "3000", UCX_TCP)),
        ("ucx_perftest", "UCX over tcp, tag 64 B", lambda: ucx("tag_lat", "64", "50000", UCX_TCP)),
        ("ucx_perftest", "UCX over shared memory, tag 1 MiB", lambda: ucx("tag_bw", "1048576", "3000", UCX_SHM)),
        ("ucx_perftest", "UCX over shared memory, tag 64 B", lambda: ucx("tag_lat", "64", "50000", UCX_SHM)),
        ("fi_pingpong", "libfabric over tcp, 1 MiB", lambda: fabric("1048576", "2000")),
        ("fi_pingpong", "libfabric over tcp, 64 B", lambda: fabric("64", "20000")),
    ):
        if not shutil.which(program):
            continue
        try:
            print(f"{what:36} {fn()}", flush=True)
        except (subprocess.SubprocessError, IndexError, ValueError) as e:
            print(f"{what:36} could not be measured: {e}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("raw")
    p.add_argument("verbs")
    p.add_argument("odp")
    p.add_argument("threads")
    p.add_argument("urxe")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="")
    p.add_argument("--option", action="append")
    args = p.parse_args()
    b = Bench(args)
    failed = 0
    print(f"{'measure':36} {'ours':>10} {'limit':>10}  {'ratio':>6}  {'goal':8}  limit is")
    for name, unit, ours, limit, what, goal, ok in rows(b):
        if args.only not in name:
            continue
        pairs = []
        try:
            for _ in range(args.rounds):
                pairs.append((ours(), limit()))
        except (subprocess.SubprocessError, IndexError, ValueError) as e:
            print(f"{name:36} could not be measured: {e}")
            failed += 1
            continue
        o, l = (statistics.median(x) for x in zip(*pairs))
        r = statistics.median(a / c for a, c in pairs)
        print(f"{name:36} {o:10.4g} {l:10.4g}  {r:6.2f}  {goal:8}  {what}, {unit}{'' if ok(r) else '   MISSED'}",
              flush=True)
    others()
    return 1 if failed else 0


sys.exit(main())
