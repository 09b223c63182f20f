#!/usr/bin/env bash
# window.sh builds the window and opens it on a display of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ -e frontend/dist/index.html ] || build/page.sh
work=$(mktemp -d)
window=
finish() {
	if [ -n "$window" ]; then kill "$window" 2>/dev/null && wait "$window" || true; fi
	if [ -n "${display:-}" ]; then kill "$display" 2>/dev/null || true; fi
	rm -rf "$work"
}
trap finish EXIT
go build -tags desktop,production,webkit2_41 -o "$work/godwit" .
Xvfb :97 -screen 0 1280x900x24 >/dev/null 2>&1 &
display=$!
export DISPLAY=:97 GODWIT_HOME=$work/home
"$work/godwit" >"$work/log" 2>&1 &
window=$!
for _ in $(seq 100); do
	if xdotool search --onlyvisible --name Godwit >/dev/null 2>&1; then
		echo "window: open"
		exit 0
	fi
	sleep 0.3
done
echo "window: did not open" >&2
tail -n 30 "$work/log" >&2
exit 1
