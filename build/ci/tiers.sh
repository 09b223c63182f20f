#!/usr/bin/env bash
# tiers.sh [go test flags] prints the CPU tiers that the kernel tests ran on this
# machine, as the tests in engine/cpu named TestTiers log them ("cpu tiers: …").
# No such line is a failure: a tier that nobody ran is not tested.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ ! -d engine/cpu ]; then exit 0; fi
out=$(go test -run '^TestTiers$' -v "$@" ./engine/cpu/...)
if ! grep -o 'cpu tiers: .*' <<<"$out"; then
	echo "$out" >&2
	echo "tiers.sh: no test named the CPU tiers that it ran" >&2
	exit 1
fi
