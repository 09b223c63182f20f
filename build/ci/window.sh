#!/usr/bin/env bash
# window.sh builds the window for Linux and Windows, opens the Linux one under
# Xvfb and uses it with xdotool. It types a message, drags a model in, answers
# the system's dialogs, closes the window during an answer, and opens it again.
# It passes if the server received all of this. A picture of the window is kept
# in build/bin/window.png.
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

mkdir -p "$home/data/models" "$home/else" "$home/bin"
printf '[engine]\ncontext_shift = true\n' >"$home/config.toml" # prevents an answer from ending when the context is full
model=${XDG_DATA_HOME:-$HOME/.local/share}/godwit/models/SmolLM2-135M-Instruct.Q4_1.gguf
ln -s "$model" "$home/data/models/"
ln "$model" "$home/else/picked.gguf" 2>/dev/null || cp "$model" "$home/else/picked.gguf"
ln "$home/else/picked.gguf" "$home/else/dragged.gguf"
# shellcheck disable=SC2046 # pkg-config prints several flags
cc -o "$home/desktop" build/ci/desktop.c $(pkg-config --cflags --libs gtk+-3.0 x11)
printf '#!/bin/sh\necho "$@" >>"%s/opened"\n' "$home" >"$home/bin/xdg-open"
chmod +x "$home/bin/xdg-open"
display=$(mktemp)
Xvfb -displayfd 3 -screen 0 1280x860x24 -nolisten tcp 3>"$display" 2>/dev/null &
pids+=($!)
for _ in $(seq 600); do
	if [ -s "$display" ]; then break; fi
	sleep 0.1
done
DISPLAY=":$(cat "$display")"
export DISPLAY GODWIT_HOME=$home LANG=C PATH="$home/bin:$PATH"
rm "$display"

fail() {
	echo "window.sh: $1" >&2
	cat "$home/out" >&2
	exit 1
}
# start opens the window. It sets window to its process and id to its X window.
start() {
	build/bin/godwit-window >"$home/out" 2>&1 &
	window=$!
	pids+=("$window")
	id=
	for _ in $(seq 600); do
		if grep -q 'window open' "$home/out" && id=$(xdotool search --onlyvisible --name '^Godwit|· Godwit$' 2>/dev/null | tail -1) && [ -n "$id" ]; then return; fi
		kill -0 "$window" 2>/dev/null || fail "the window ended by itself"
		sleep 0.2
	done
	fail "no window after two minutes"
}
# ended waits up to a minute until the window is gone.
ended() {
	for _ in $(seq 600); do
		if ! kill -0 "$window" 2>/dev/null; then return; fi
		sleep 0.1
	done
	fail "the window is still there a minute after $1"
}

start
python3 build/ci/window.py chat "$home" "$id"
python3 build/ci/window.py native "$home" "$id"
python3 build/ci/window.py close "$home" "$id"
ended "it was closed"
start
python3 build/ci/window.py kept "$home"

# A second start brings the first window to the front and ends.
timeout 60 build/bin/godwit-window || fail "the second start did not find the first"
kill -0 "$window" || fail "the second start ended the first"
kill -TERM "$window"
ended SIGTERM
echo "window.sh: typed, answered, used, closed, opened again, focused by a second start, ended"
