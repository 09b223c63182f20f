#!/usr/bin/env bash
# packages.sh [STAGE...] installs the Debian packages of packages.txt that are
# missing, for the stages named or for all whose folder exists. As another user
# than root, or on another system, it says what to install and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
while read -r stage needs packages; do
	case "$stage" in ''|'#'*) continue ;; esac
	if [ "$#" -gt 0 ] && [[ " $* " != *" $stage "* ]]; then continue; fi
	if [ ! -e "$needs" ]; then continue; fi
	for package in $packages; do
		if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
			missing+=("$package")
		fi
	done
done <build/ci/packages.txt

if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "packages.sh: run this first: sudo apt-get install -y ${missing[*]}" >&2
	exit 1
fi
echo "packages.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o Acquire::Retries=3 update >/dev/null
apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "${missing[@]}" >/dev/null
