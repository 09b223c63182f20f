#!/usr/bin/env bash
# bench.sh runs the benchmarks of the kernels and prints them.
set -euo pipefail
cd "$(dirname "$0")/.."

go test -run '^$' -bench "${BENCH:-.}" -benchmem ./engine/...
