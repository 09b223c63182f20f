#!/usr/bin/env bash
# faults.sh runs a server under load for three minutes, or for an hour with
# GODWIT_TEST=all: more models and clients than its memory holds.
set -euo pipefail
cd "$(dirname "$0")/../.."

span=3m
if [ "${GODWIT_TEST:-}" = all ]; then span=1h; fi
GODWIT_SOAK=${GODWIT_SOAK:-$span} CI=true go test -count=1 -timeout 2h -run '^TestSoak$' -v ./app/cli
