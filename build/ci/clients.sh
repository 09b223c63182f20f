#!/usr/bin/env bash
# clients.sh runs the official clients, in the versions pinned in build/clients,
# against a server with the demo model. The packages are kept in the cache
# folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

clients=$PWD/build/clients
sum=$(cat "$clients"/requirements.txt "$clients"/package-lock.json | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/godwit/clients/$sum
work=$(mktemp -d)
server=
finish() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap finish EXIT

if [ ! -e "$cache/ready" ]; then
	rm -rf "$cache"
	mkdir -p "$cache"
	python3 -m venv "$cache/python"
	"$cache/python/bin/pip" install -q --no-deps -r "$clients/requirements.txt"
	cp "$clients/package.json" "$clients/package-lock.json" "$cache/"
	(cd "$cache" && npm ci --silent --no-audit --no-fund)
	touch "$cache/ready"
fi

CGO_ENABLED=0 go build -o "$work/godwit" ./app/cmd/godwit
"$work/godwit" pull demo >/dev/null
touch "$work/out"
"$work/godwit" serve demo --port 0 -c 2048 --temp 0 --slot-save-path "$work/slots" >"$work/out" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
	GODWIT_URL=$(sed -n 's/^listening on //p' "$work/out")
	if [ -n "$GODWIT_URL" ] && curl -sf "$GODWIT_URL/health" >/dev/null; then break; fi
	if ! kill -0 "$server" 2>/dev/null; then break; fi
	sleep 0.2
done
export GODWIT_URL
if ! curl -sf "$GODWIT_URL/health" >/dev/null; then
	echo "clients.sh: the server did not start" >&2
	cat "$work/log" >&2
	exit 1
fi

for check in "$clients"/*_check.py; do
	"$cache/python/bin/python" "$check"
done
# Node looks for packages next to the script, so the script runs from the
# packages' folder.
cp "$clients"/*_check.mjs "$cache/"
for check in "$cache"/*_check.mjs; do
	node "$check"
done
