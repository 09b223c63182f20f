#!/usr/bin/env bash
# page.sh checks the types of the page, runs its unit tests, and drives it in a
# real browser against the real server with the small real model.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
for tool in npm "$CHROMIUM"; do
	if ! command -v "$tool" >/dev/null; then
		echo "page.sh: no $tool; run: build/ci/packages.sh page, and install Node.js 20 or newer" >&2
		exit 1
	fi
done

build/page.sh
(cd frontend && npm run -s check && npm run -s unit)

# Measure the script that loads before the page shows anything, with its
# imports.
most=200000
size=$(node -e '
	const { readFileSync, statSync } = require("fs");
	const seen = new Set();
	const add = (name) => {
		if (seen.has(name)) return;
		seen.add(name);
		for (const m of readFileSync(`frontend/dist/assets/${name}`, "utf8").matchAll(/(?:^|[;}\s])(?:import|export)[^()"]*?from\s*"\.\/([^"]+\.js)"|(?:^|;)import"\.\/([^"]+\.js)"/g)) add(m[1] ?? m[2]);
	};
	add(/src="\.\/assets\/([^"]+\.js)"/.exec(readFileSync("frontend/dist/index.html", "utf8"))[1]);
	console.log([...seen].reduce((n, name) => n + statSync(`frontend/dist/assets/${name}`).size, 0));
')
echo "page.sh: $size bytes of script before the lazy parts, at most $most"
if [ "$size" -gt "$most" ]; then exit 1; fi
if grep -nE '"resolved"' frontend/package-lock.json; then
	echo "page.sh: package-lock.json names where packages came from; see frontend/.npmrc" >&2
	exit 1
fi

build/build.sh headless
build/bin/godwit pull demo
cd frontend
GODWIT_BIN=../build/bin/godwit npm run -s browser
