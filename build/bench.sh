#!/usr/bin/env bash
# bench.sh measures this machine: its limits, the two demo models, the cache
# types by depth, and every kernel against its generic Go version. It appends
# the results to docs/measurements.md, with date, machine and commit. It fails if
# a kernel is slower than generic Go. It takes minutes, and many more on a busy
# machine.
#   build/bench.sh [threads]
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/measurements.md
threads=${1:-0}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go build -o "$tmp/godwit" ./app/cmd/godwit
godwit() { "$tmp/godwit" --log-level error "$@"; }
godwit pull demo >&2
godwit pull gemma-demo >&2

bench() { # also prints the command
	printf '\n`godwit bench %s`\n\n' "$*"
	godwit bench -t "$threads" "$@"
}

# Kernel benchmarks have the tier in their names. Attention runs once per tier.
tiers=$(go test -count 1 -run '^TestTiers$' -v ./engine/cpu/kernel | sed -n 's/.*kernels \[\(.*\)\].*/\1/p')
measure() { # measure COUNT TIME PACKAGE PATTERN
	go test -run '^$' -cpu 1 -count "$1" -benchtime "$2" -bench "$4" "./engine/cpu/$3"
}
attention() { # attention TIER COUNT TIME PATTERN
	GODWIT_CPU_TIER=$1 measure "$2" "$3" attn "$4" | sed "s,^Benchmark,BenchmarkAttention/$1/,"
}
kernels() {
	measure 2 20ms kernel '(MatVecCache|Element)$'
	measure 1 20ms kernel 'MatMul$/././x2048' # generic Go needs seconds per run
	for tier in $tiers; do
		attention "$tier" 2 20ms 'Decode$/L2/^d128/^g4|Prefill$/^d128'
	done
}
# Kernels that seem slower are measured again, for longer and next to their
# generic version. A run of one iteration is unreliable while the machine is busy.
again() {
	while read -r tier pattern; do
		case $pattern in
		^BenchmarkAttention*)
			pattern="^Benchmark${pattern#*/*/^}"
			attention generic 5 100ms "$pattern"
			attention "$tier" 5 100ms "$pattern"
			;;
		*) measure 5 100ms kernel "$pattern" ;;
		esac
	done
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
slower=0
{
	printf '\n### %s, %s %s%s, commit %s\n' "$(date -u +%F)" "$(uname -s)" "$(uname -m)" "${cpu:+, $cpu}" "$(git describe --always --dirty)"
	read -r load _ </proc/loadavg 2>/dev/null && printf '\nThe load was %s when it began.\n' "$load"
	bench --roofline
	for model in demo gemma-demo; do
		bench "$model" -p 512 -n 128
	done
	bench demo -p 0 -n 128 --sequences 1,8
	for kv in f16 q8_0 turbo4 turbo3 turbo2 tbq3; do
		bench demo -p 0 -n 16 -r 3 -d 1024,4096,16384,32768 --synthetic -ctk "$kv" -ctv "$kv"
	done
	printf '\n'
	kernels >"$tmp/kernels"
	for _ in 1 2 3; do
		# shellcheck disable=SC2086 # one argument per tier
		python3 build/bench/slower.py --again $tiers <"$tmp/kernels" >"$tmp/again"
		again <"$tmp/again" >>"$tmp/kernels"
	done
	# shellcheck disable=SC2086
	python3 build/bench/slower.py $tiers <"$tmp/kernels" || slower=$?
} >"$tmp/entry"
cat "$tmp/entry"
cat "$tmp/entry" >>"$page"
exit "$slower"
