#!/usr/bin/env bash
# go.sh runs the Go tests. It then repeats the packages in which goroutines share
# data, with the race detector and fewer cases, and names the CPU tiers that ran.
set -euo pipefail
cd "$(dirname "$0")/../.."

race='^godwit/(engine/sched|engine/kv|engine/prefix|app/ledger|app/pool|app/api|app/store|app/hub)(/|$)'
export CI=true # fail a test that cannot fetch its data
timeout=30m # per package; a busy machine may take three times as long
if [ "${GODWIT_TEST:-}" = all ]; then timeout=90m; fi

# Only packages with tests, because there is nothing to run in the others.
source build/ci/emulated.sh
mapfile -t all < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE "$emulated")
raced=()
for pkg in "${all[@]}"; do
	if [[ $pkg =~ $race ]]; then raced+=("$pkg"); fi
done

go test -timeout "$timeout" -skip "$onkernels" "${all[@]}"
if [ "${#raced[@]}" -gt 0 ]; then CGO_ENABLED=1 go test -race -short -skip "$onkernels" -timeout "$timeout" "${raced[@]}"; fi
build/ci/golden.sh
build/ci/tiers.sh
