#!/usr/bin/env bash
# generated.sh runs the generators and fails if they change the working tree. It
# compares the diff before and after, so it also works on a dirty tree.
set -euo pipefail
cd "$(dirname "$0")/../.."

state() { git status --porcelain --untracked-files=all; git diff; }
before=$(state)
go generate ./engine/... ./app/...
after=$(state)
if [ "$before" != "$after" ]; then
	diff <(echo "$before") <(echo "$after") | head -100 >&2 || true
	echo "generated.sh: generated files are stale; run: make generate" >&2
	exit 1
fi
