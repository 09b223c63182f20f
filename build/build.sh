#!/usr/bin/env bash
# build.sh [headless] writes build/bin/godwit. It includes the window if the window's
# libraries are installed. Otherwise it is the headless binary, which serves the same page.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-auto}
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
flags=(-trimpath -buildvcs=auto -ldflags "-s -w -X godwit/app/cli.Version=$version")
mkdir -p build/bin

window=no tags=desktop,production
case "$(go env GOOS)" in
linux)
	if pkg-config --exists gtk+-3.0 webkit2gtk-4.1 2>/dev/null; then window=yes; fi
	tags=$tags,webkit2_41
	;;
darwin)
	if command -v clang >/dev/null; then window=yes; fi
	export CGO_LDFLAGS="-framework UniformTypeIdentifiers"
	;;
windows) window=yes ;;
esac
if [ ! -e wails.json ] || [ "$kind" = headless ]; then window=no; fi

if [ "$window" = yes ]; then
	go build "${flags[@]}" -tags "$tags" -o build/bin/ .
	echo "built build/bin/godwit with the window"
else
	CGO_ENABLED=0 go build "${flags[@]}" -o build/bin/ ./app/cmd/godwit
	echo "built build/bin/godwit without the window"
fi
