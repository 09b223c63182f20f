#!/usr/bin/env bash
# run.sh fetches the demo model, builds Godwit and starts it: the window where
# there is a display, else the same page on localhost.
set -euo pipefail
cd "$(dirname "$0")/.."

display=no
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname -s)" = Darwin ]; then display=yes; fi
kind=headless
if [ "$display" = yes ] && [ -e wails.json ]; then
	if command -v dpkg-query >/dev/null; then build/ci/packages.sh window; fi
	kind=auto
fi
build/page.sh
build/build.sh "$kind"
build/bin/godwit pull demo
if [ "$kind" = auto ]; then exec build/bin/godwit; fi
if [ -e frontend/dist/index.html ]; then exec build/bin/godwit serve demo --ui; fi
exec build/bin/godwit chat demo
