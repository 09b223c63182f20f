#!/usr/bin/env python3
"""Lists kernels that are slower than their generic Go version.

Reads the output of go test -bench from standard input. The arguments are the
names of instruction tiers. A benchmark with a tier in its name, such as
BenchmarkMatVecCache/avx2/Q4_1, is compared with the same benchmark of the tier
generic. If a benchmark ran several times, its fastest run counts.
Prints a table of each tier's speed relative to generic. Exits with 1 if a
benchmark is slower than generic, or if there was nothing to compare.

With --again, it instead prints the benchmarks that seem slower, one per line:
the tier, and a -bench pattern that matches the benchmark in that tier and in
generic.
"""

import math
import re
import statistics
import sys

LINE = re.compile(r"^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op")


def read(lines, tiers):
    """Returns the fastest time of each benchmark and tier. The key is the parts of the name before and after the tier."""
    times = {}
    for line in lines:
        found = LINE.match(line)
        if not found:
            continue
        parts = found[1].removeprefix("Benchmark").split("/")
        at = next((i for i, p in enumerate(parts) if p in tiers), None)
        if at is None:
            continue
        by_tier = times.setdefault((tuple(parts[:at]), tuple(parts[at + 1 :])), {})
        by_tier[parts[at]] = min(float(found[2]), by_tier.get(parts[at], math.inf))
    return times


def again(times):
    for (before, after), by_tier in times.items():
        for tier, ns in by_tier.items():
            if ns > by_tier.get("generic", math.inf):
                parts = [re.escape(p) for p in before]
                parts += [f"({tier}|generic)", *(re.escape(p) for p in after)]
                parts[0] = "Benchmark" + parts[0]
                print(tier, "/".join(f"^{p}$" for p in parts))


def main():
    if sys.argv[1:2] == ["--again"]:
        again(read(sys.stdin, sys.argv[2:]))
        return
    times = {"/".join(before + after): by_tier for (before, after), by_tier in read(sys.stdin, sys.argv[1:]).items()}
    slower = []
    groups = {}
    for name, by_tier in times.items():
        for tier, ns in by_tier.items():
            if tier == "generic" or "generic" not in by_tier:
                continue
            gain = by_tier["generic"] / ns
            groups.setdefault((name.split("/")[0], tier), []).append(gain)
            if gain < 1:
                slower.append(f"{name} with {tier}: {ns:.0f} ns, generic {by_tier['generic']:.0f} ns")
    print("| kernels | tier | number | least, median and greatest speed over generic Go |\n|---|---|---:|---|")
    for (name, tier), gains in groups.items():
        print(f"| {name} | {tier} | {len(gains)} | {min(gains):.1f} · {statistics.median(gains):.1f} · {max(gains):.1f} |")
    if slower:
        print("\nSlower than generic Go:\n")
        for line in slower:
            print(f"- {line}")
    elif groups:
        print("\nNone is slower than generic Go.")
    sys.exit(bool(slower) or not groups)


main()
