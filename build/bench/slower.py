#!/usr/bin/env python3
"""Lists kernels that are slower than their generic Go version.

Reads the output of go test -bench from standard input. A benchmark that has a
tier of instructions among the parts of its name, like
BenchmarkMatVecCache/avx2/Q4_1, is compared with the one of the tier generic;
of several runs the fastest counts. The tiers are the arguments.
Prints a table of the tiers' speeds over generic; exits 1 if one is below 1, or
if there was nothing to compare.
"""

import math
import re
import statistics
import sys

LINE = re.compile(r"^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op")


def main():
    times = {}
    tiers = []
    for line in sys.stdin:
        found = LINE.match(line)
        if not found:
            continue
        parts = found[1].removeprefix("Benchmark").split("/")
        tier = next((p for p in parts if p in sys.argv[1:]), None)
        if tier is None:
            continue
        parts.remove(tier)
        if tier not in tiers:
            tiers.append(tier)
        by_tier = times.setdefault("/".join(parts), {})
        by_tier[tier] = min(float(found[2]), by_tier.get(tier, math.inf))
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
