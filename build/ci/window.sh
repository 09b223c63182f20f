#!/usr/bin/env bash
# window.sh builds the window for Linux and Windows, opens the first under Xvfb,
# types a message with xdotool, and passes when the server has it and its finished
# answer. The picture of the window is kept in build/bin/window.png.
set -euo pipefail
cd "$(dirname "$0")/../.."

for tool in Xvfb xdotool pkg-config python3; do
	if ! command -v "$tool" >/dev/null; then
		echo "window.sh: no $tool; run: build/ci/packages.sh window" >&2
		exit 1
	fi
done
build/page.sh
mkdir -p build/bin
CGO_ENABLED=0 GOOS=windows go build -tags desktop,production -o build/bin/godwit-window.exe .
echo "window.sh: the window for Windows compiles"
go vet -tags desktop,production,webkit2_41 . ./app
go build -tags desktop,production,webkit2_41 -o build/bin/godwit-window .
build/bin/godwit-window pull demo

home=$(mktemp -d)
pids=()
finish() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$home"
}
trap finish EXIT

mkdir -p "$home/data/models"
ln -s "${XDG_DATA_HOME:-$HOME/.local/share}/godwit/models/SmolLM2-135M-Instruct.Q4_1.gguf" "$home/data/models/"
display=$(mktemp)
Xvfb -displayfd 3 -screen 0 1280x860x24 -nolisten tcp 3>"$display" 2>/dev/null &
pids+=($!)
for _ in $(seq 100); do
	if [ -s "$display" ]; then break; fi
	sleep 0.1
done
DISPLAY=":$(cat "$display")"
export DISPLAY GODWIT_HOME=$home LANG=C
rm "$display"

build/bin/godwit-window >"$home/out" 2>&1 &
window=$!
pids+=("$window")
fail() {
	echo "window.sh: $1" >&2
	cat "$home/out" >&2
	exit 1
}
for _ in $(seq 150); do
	if grep -q 'window open' "$home/out" && id=$(xdotool search --onlyvisible --name '^Godwit|· Godwit$' 2>/dev/null | tail -1) && [ -n "$id" ]; then break; fi
	kill -0 "$window" 2>/dev/null || fail "the window ended by itself"
	sleep 0.2
done
[ -n "${id:-}" ] || fail "no window after 30 s"

python3 build/ci/window.py "$home" "$id"

# A second start brings the first to the front and ends.
timeout 20 build/bin/godwit-window || fail "the second start did not find the first"
kill -0 "$window" || fail "the second start ended the first"
kill -TERM "$window"
for _ in $(seq 50); do
	if ! kill -0 "$window" 2>/dev/null; then break; fi
	sleep 0.1
done
if kill -0 "$window" 2>/dev/null; then fail "the window is still there 5 s after SIGTERM"; fi
echo "window.sh: typed, answered, focused by a second start, closed"
