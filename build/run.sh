#!/usr/bin/env bash
# run.sh fetches the demo model, builds Godwit and starts it. With a display it
# opens the window, and otherwise it serves the same page on localhost.
set -euo pipefail
cd "$(dirname "$0")/.."

display=no
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname -s)" = Darwin ]; then display=yes; fi
kind=headless needs=(build)
if [ "$display" = yes ] && [ -e wails.json ]; then
	kind=auto
	if command -v dpkg-query >/dev/null; then needs+=(desktop); fi
fi
build/ci/packages.sh "${needs[@]}"
build/page.sh
build/build.sh "$kind"
build/bin/godwit pull demo
if [ "$kind" = auto ]; then exec build/bin/godwit; fi
if [ -e frontend/dist/index.html ]; then exec build/bin/godwit serve demo --ui; fi
exec build/bin/godwit chat demo
