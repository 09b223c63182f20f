#!/usr/bin/env bash
# packages.sh [STAGE...] checks that the packages in packages.txt are installed, for
# the given stages or for all stages whose folder exists. As root on Debian it
# installs missing packages. Otherwise, or if Go, Node.js or Python is missing or
# too old, it prints everything that is missing and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

# version prints the version of a tool, or nothing if the tool is missing. For Go
# it prints the version in PATH, not the one that Go would download.
version() {
	case "$1" in
	go) (cd / && GOTOOLCHAIN=local go env GOVERSION) 2>/dev/null | sed 's/^go//' ;;
	node) node --version 2>/dev/null | sed 's/^v//' ;;
	*) "$1" --version 2>/dev/null | sed 's/.* //' ;;
	esac || true
}

# installed succeeds if a Debian package is installed. On a system without dpkg it
# looks for a program or library of the package.
installed() {
	if command -v dpkg-query >/dev/null; then
		dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
		return
	fi
	case "$1" in
	ca-certificates) ls /etc/ssl/cert* /etc/pki/tls/cert* >/dev/null 2>&1 ;;
	chromium) command -v "${CHROMIUM:-chromium}" >/dev/null ;;
	clang) command -v clang++ >/dev/null ;;
	imagemagick) command -v import >/dev/null ;;
	libamdhip64-5) ldconfig -p 2>/dev/null | grep -q libamdhip64 ;;
	libc6-dev) echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 ;;
	libgtk-3-dev) pkg-config --exists gtk+-3.0 2>/dev/null ;;
	libhiprtc-builtins5) ldconfig -p 2>/dev/null | grep -q libhiprtc-builtins ;;
	libwebkit2gtk-4.1-dev) pkg-config --exists webkit2gtk-4.1 2>/dev/null ;;
	python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
	qemu-user-static) command -v qemu-aarch64-static >/dev/null ;;
	xvfb) command -v Xvfb >/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# wanted succeeds if a comma-separated list names one of the stages.
wanted() {
	local list=",$1," stage
	shift
	if [ "$#" -eq 0 ] || [ "$list" = ,any, ]; then return 0; fi
	for stage in "$@"; do
		if [[ $list == *",$stage,"* ]]; then return 0; fi
	done
	return 1
}

seen=' ' packages=() tools=()
while read -r stages needs list; do
	case "$stages" in '' | '#'*) continue ;; esac
	if [ ! -e "$needs" ] || ! wanted "$stages" "$@"; then continue; fi
	for item in $list; do
		if [[ $seen == *" $item "* ]]; then continue; fi
		seen+="$item "
		name=${item%%>=*} least=${item#*>=}
		if [ "$name" = "$item" ]; then
			if ! installed "$name"; then packages+=("$name"); fi
			continue
		fi
		found=$(version "$name")
		if [ -z "$found" ]; then
			tools+=("$name $least or newer, which is not in PATH")
		elif ! printf '%s\n' "$least" "$found" | sort -V -C; then
			tools+=("$name $least or newer; the one in PATH is $found")
		fi
		if [ "$name" = node ] && ! command -v npm >/dev/null; then
			tools+=("npm, which comes with node and is not in PATH")
		fi
	done
done <build/ci/packages.txt

install=no
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then install=yes; fi
for tool in ${tools[@]+"${tools[@]}"}; do echo "packages.sh: install $tool" >&2; done
if [ "${#packages[@]}" -gt 0 ] && [ "$install" = no ]; then
	if command -v dpkg-query >/dev/null; then
		echo "packages.sh: run this first: sudo apt-get install -y ${packages[*]}" >&2
	else
		echo "packages.sh: install these first, named as in Debian: ${packages[*]}" >&2
	fi
	exit 1
fi
if [ "${#tools[@]}" -gt 0 ]; then exit 1; fi
if [ "${#packages[@]}" -gt 0 ]; then
	echo "packages.sh: installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q -o Acquire::Retries=3 update >/dev/null
	apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "${packages[@]}" >/dev/null
fi
