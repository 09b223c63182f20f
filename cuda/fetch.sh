#!/usr/bin/env bash
# fetch.sh FOLDER PACKAGE==VERSION FILE prints the path of a file in one of
# NVIDIA's Python packages. At first use, it installs the package into a folder
# of the cache.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/godwit/$1
file=$cache/$3
if [ ! -e "$file" ]; then
	rm -rf "$cache"
	python3 -m venv "$cache.venv"
	"$cache.venv/bin/pip" install -q --no-deps --target "$cache" "$2" >&2
	rm -rf "$cache.venv"
fi
chmod +x "$file"
echo "$file"
