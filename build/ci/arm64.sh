#!/usr/bin/env bash
# arm64.sh runs the tests of the packages with arm64 assembly under qemu. All
# tests run with every CPU feature that qemu has, and so cover the plain NEON
# tier too. The kernel tests run again on a processor without dot-product
# instructions, because no kernel may use those there.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "$(go env GOHOSTARCH)" = arm64 ]; then
	echo "arm64.sh: this machine is arm64, the Go tests covered it"
	exit 0
fi
if ! command -v qemu-aarch64-static >/dev/null; then
	echo "arm64.sh: no qemu-aarch64-static; run: apt-get install -y qemu-user-static" >&2
	exit 1
fi
export GOARCH=arm64 CGO_ENABLED=0
exec=(-exec 'qemu-aarch64-static -cpu max')
plain=(-exec 'qemu-aarch64-static -cpu cortex-a53')

pkgs=()
for dir in engine/quant engine/kv engine/cpu; do
	if [ -d "$dir" ]; then pkgs+=("./$dir/..."); fi
done
if [ "${#pkgs[@]}" -eq 0 ]; then exit 0; fi
mapfile -t tested < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${pkgs[@]}")
if [ "${#tested[@]}" -eq 0 ]; then exit 0; fi
# asmdecl checks the frames of the arm64 files, which go vet on the host skips.
go vet "${tested[@]}"
# The attention matrices and the whole models of engine/cpu would take an hour
# under emulation. Only the ops and the pool differ by processor.
mapfile -t whole < <(printf '%s\n' "${tested[@]}" | grep -v '/engine/cpu$')
go test "${exec[@]}" -short -timeout 15m "${whole[@]}"
go test "${exec[@]}" -short -timeout 10m -run 'TestPool|TestConformance' ./engine/cpu
go test "${plain[@]}" -short -timeout 10m -run 'Bits|Convert|ArgMax|Kernels|MulAdd|TransposeFloats' ./engine/cpu/kernel ./engine/cpu/attn
build/ci/tiers.sh "${exec[@]}"
echo "without dot products:"
build/ci/tiers.sh "${plain[@]}"
