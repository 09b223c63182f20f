#!/usr/bin/env bash
# emu.sh runs the tests of the GPU kernels on the emulator and with the
# compilers for their dialects. No test may be skipped, except the ones that
# golden.sh names. A missing compiler is a failure. NVIDIA's ptxas assembles one
# image of each kernel, and the images that have changed since the last record
# (at most about 128).
set -euo pipefail
cd "$(dirname "$0")/../.."

for tool in c++ clang++; do
	if ! command -v "$tool" >/dev/null; then
		echo "emu.sh: no $tool; run: build/ci/packages.sh emulator" >&2
		exit 1
	fi
done
timeout=20m
if [ "${GODWIT_TEST:-}" = all ]; then timeout=60m; fi
source build/ci/emulated.sh

mapfile -t pkgs < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -E "$emulated")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
CI=true CGO_ENABLED=0 go test -v -timeout "$timeout" "${pkgs[@]}" >"$log" 2>&1 || status=$?
if [ "$status" -eq 0 ]; then
	CI=true CGO_ENABLED=0 go test -v -timeout "$timeout" -run "$onkernels" ./engine >>"$log" 2>&1 || status=$?
fi
if [ "$status" -eq 0 ]; then # tests of device state that goroutines share
	CI=true CGO_ENABLED=1 go test -race -v -timeout "$timeout" -run 'BesideLaunches$' ./cuda >>"$log" 2>&1 || status=$?
fi
if [ "$status" -ne 0 ]; then
	grep -vE '^ *(=== |--- PASS)' "$log" | tail -n 100 >&2
	exit "$status"
fi
# Each skipped test has a line with its reason.
skipped=$(grep -cE '^ *--- SKIP' "$log" || true)
if [ "$skipped" -ne "$(grep -cF ': not in this clone: golden/' "$log" || true)" ]; then
	grep -E '^ *--- SKIP' "$log" >&2
	echo "emu.sh: tests were skipped" >&2
	exit 1
fi
grep -E '^ok' "$log"
build/ci/golden.sh
echo "emu.sh: $(grep -cE '^--- PASS' "$log") tests passed, $skipped skipped"
cuda/check.sh 75,86,90
