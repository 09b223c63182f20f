#!/usr/bin/env bash
# tiers.sh [go test flags] prints the CPU tiers that the kernel tests ran on this
# machine, as TestTiers in the packages of engine/cpu logs them ("cpu tiers: …").
# If there is no such line, it fails, because a tier that did not run is not tested.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ ! -d engine/cpu ]; then exit 0; fi
out=$(go test -run '^TestTiers$' -v "$@" ./engine/cpu/...)
if ! grep -o 'cpu tiers: .*' <<<"$out"; then
	echo "$out" >&2
	echo "tiers.sh: no test named the CPU tiers that it ran" >&2
	exit 1
fi
