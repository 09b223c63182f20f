#!/usr/bin/env bash
# golden.sh prints one line if $GODWIT_GOLDEN, or else ../shared/golden, lacks golden
# data that is not part of the clone. Tests that need this data are skipped.
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
