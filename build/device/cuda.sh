#!/usr/bin/env bash
# cuda.sh tests and measures the kernels on a machine with an NVIDIA card, or
# with an AMD card if GODWIT_DEVICE=hip. It compares every op with the oracle
# and the golden models, both with the kernels for the card and with the kernels
# for older cards. If compute-sanitizer is installed, it also checks memory
# accesses and races. It measures the bandwidth of matrix-vector products and of
# attention over packed and plain caches, with launches and with graphs, and the
# speed of matrix products, with both sets of kernels.
#
# It needs Go with the module's dependencies in its cache, no network, and at
# most 8 minutes. Results are lines of JSON on stdout, and the log is on stderr.
# With GODWIT_DEVICE=fake, everything runs on any Linux machine over a fake
# driver, to check the script itself. The limits are then longer and the figures
# mean nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

export GODWIT_DEVICE=${GODWIT_DEVICE:-cuda} GOFLAGS=-mod=mod GOPROXY=off
export CI=true # missing data is a failure
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >&2 || true
go version >&2
go build -o "$work/godwit" ./app/cmd/godwit
go test -tags device -c -o "$work/cuda.test" ./cuda
go test -tags device -c -o "$work/engine.test" ./engine

step() { # step SECONDS NAME COMMAND...: runs a step, prints its result, and continues
	local limit=$1 name=$2 status=0 begin=$SECONDS
	shift 2
	if [ "$GODWIT_DEVICE" = fake ]; then limit=$((10 * limit)); fi
	timeout "$limit" "$@" >"$work/out" 2>&1 || status=$?
	cat "$work/out" >&2
	sed -n 's/^DEVICE //p' "$work/out"
	printf '{"test":"%s","passed":%s,"seconds":%d}\n' "$name" "$([ "$status" -eq 0 ] && echo true || echo false)" "$((SECONDS - begin))"
}

(cd cuda && step 120 conformance "$work/cuda.test" -test.run '^TestDeviceConformance$')
(cd engine && step 110 goldens "$work/engine.test" -test.run '^TestTinyModelsOnDevice$')
(cd cuda && step 70 matvec "$work/cuda.test" -test.run '^TestDeviceMatvec$')
(cd cuda && step 40 matmul "$work/cuda.test" -test.run '^TestDeviceMatmul$')
(cd cuda && step 80 attention "$work/cuda.test" -test.run '^TestDeviceAttention$')
if command -v compute-sanitizer >/dev/null; then
	for tool in memcheck racecheck; do
		(cd cuda && step 30 "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$work/cuda.test" -test.run '^TestDeviceConformance$/card/rowwise')
	done
fi
