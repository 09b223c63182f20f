#!/usr/bin/env bash
# golden.sh says in one line which golden data is not in the clone and not in
# $GODWIT_GOLDEN or ../shared/golden either. Tests of that data are skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${GODWIT_GOLDEN:-../shared/golden}
missing=()
for part in vocab models/tiny; do
	if [ ! -d "$folder/$part" ]; then missing+=("$part"); fi
done
if [ "${#missing[@]}" -gt 0 ]; then
	echo "golden.sh: skipping tests of ${missing[*]}, which $folder does not have"
fi
