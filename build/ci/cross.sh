#!/usr/bin/env bash
# cross.sh builds every package without cgo for every supported platform, and
# type-checks the code that macOS builds with cgo.
set -euo pipefail
cd "$(dirname "$0")/../.."

for platform in linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64; do
	echo "build $platform"
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build ./...
done

go run -C build/tools ./darwin arm64 amd64
