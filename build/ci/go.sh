#!/usr/bin/env bash
# go.sh runs the Go tests: packages in which goroutines share data with the race
# detector, the others without, and then names the CPU tiers that ran.
set -euo pipefail
cd "$(dirname "$0")/../.."

race='^godwit/(engine/sched|engine/kv|app/api|app/store|app/hub)(/|$)'
timeout=10m
if [ "${GODWIT_TEST:-}" = all ]; then timeout=90m; fi

# Packages with tests only: the others have nothing to run.
mapfile -t all < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
plain=() raced=()
for pkg in "${all[@]}"; do
	if [[ $pkg =~ $race ]]; then raced+=("$pkg"); else plain+=("$pkg"); fi
done

if [ "${#plain[@]}" -gt 0 ]; then go test -timeout "$timeout" "${plain[@]}"; fi
if [ "${#raced[@]}" -gt 0 ]; then CGO_ENABLED=1 go test -race -timeout "$timeout" "${raced[@]}"; fi
build/ci/tiers.sh
