#!/usr/bin/env bash
# page.sh checks the types of the page, runs its unit tests, builds it, holds
# the main bundle to its size, and opens it in Chromium on the real server.
set -euo pipefail
cd "$(dirname "$0")/../.."

(
	cd frontend
	npm ci --silent --no-audit --no-fund
	npm run --silent check
	if find src tests -name '*.test.ts' 2>/dev/null | grep -q .; then npm run --silent unit; fi
	npm run --silent build
)
main=$(sed -n 's/.*src="\.\{0,1\}\/\{0,1\}\(assets\/[^"]*\.js\)".*/\1/p' frontend/dist/index.html | head -n 1)
bytes=$(stat -c %s "frontend/dist/$main")
echo "page: main bundle $main, $bytes bytes of 204800"
[ "$bytes" -le 204800 ]

work=$(mktemp -d)
server=
finish() {
	if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" || true; fi
	rm -rf "$work"
}
trap finish EXIT
CGO_ENABLED=0 go build -o "$work/godwit" ./app/cmd/godwit
GODWIT_HOME=$work/home "$work/godwit" serve --ui --port 0 >"$work/out" 2>"$work/log" &
server=$!
url=
for _ in $(seq 100); do
	url=$(sed -n 's/^listening on //p' "$work/out")
	if [ -n "$url" ]; then break; fi
	sleep 0.1
done
chromium --headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync \
	--no-first-run --user-data-dir="$work/profile" --virtual-time-budget=3000 --dump-dom "$url/" >"$work/dom" 2>>"$work/log"
if ! grep -q '<textarea' "$work/dom"; then
	echo "page: no message box within three seconds" >&2
	tail -n 20 "$work/log" >&2
	exit 1
fi
echo "page: the message box is there"
