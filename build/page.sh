#!/usr/bin/env bash
# page.sh builds frontend/dist if a source file of the page is newer.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -e frontend/package.json ]; then exit 0; fi
if ! command -v npm >/dev/null; then
	echo "page.sh: no npm; install Node.js 20 or newer to build the page" >&2
	exit 1
fi
cd frontend
if [ package-lock.json -nt node_modules/.package-lock.json ]; then npm ci --no-audit --no-fund; fi
stale=yes
if [ -e dist/index.html ]; then
	stale=$(find . \( -name node_modules -o -name dist \) -prune -o -type f -newer dist/index.html -print -quit)
fi
if [ -n "$stale" ]; then npm run build; fi
