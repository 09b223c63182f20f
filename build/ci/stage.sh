#!/usr/bin/env bash
# stage.sh NAME BUDGET NEEDS COMMAND... runs one stage of `make test` and prints
# its time and its budget in seconds. NEEDS is the path that the stage tests. If it
# does not exist, there is nothing to run. If it exists, a missing command is a
# failure. A part of a stage has the budget "-", because its time counts for the
# whole stage.
# packages.sh first installs what the stage needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1 budget=$2 needs=$3
shift 3

if [ ! -e "$needs" ]; then
	echo "stage $name: there is no $needs, nothing to test"
	exit 0
fi
build/ci/packages.sh "$name"
echo "stage $name: $*"
start=$SECONDS
status=0
"$@" || status=$?
took=$((SECONDS - start))
if [ "$status" -ne 0 ]; then
	echo "stage $name: FAILED with status $status after $took s" >&2
	exit "$status"
fi
if [ "$budget" = - ]; then
	echo "stage $name: passed in $took s"
	exit 0
fi
note=""
if [ "$took" -gt "$budget" ]; then note=", over its budget"; fi
echo "stage $name: passed in $took s of $budget$note"
