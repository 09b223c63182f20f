#!/usr/bin/env bash
# agents.sh runs the coding agents that are pinned in build/agents against the
# real server with scripted answers. The packages are kept in the cache folder.
# Their programs come in platform packages, and no install script runs.
# GODWIT_TEST=all adds packed caches, a hundred edits in one session, and agent libraries for
# Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

agents=$PWD/build/agents
sum=$(cat "$agents/package.json" "$agents/package-lock.json" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/godwit/agents/$sum

if [ ! -e "$cache/ready" ]; then
	rm -rf "$cache"
	mkdir -p "$cache"
	cp "$agents/package.json" "$agents/package-lock.json" "$cache/"
	# Not npm ci: it rejects a lock file without the packages for other
	# platforms, and npm install cannot add packages that the registry does not
	# have to the lock file.
	(cd "$cache" && npm install --silent --no-save --ignore-scripts --no-audit --no-fund)
	touch "$cache/ready"
fi

if [ "${GODWIT_TEST:-}" = all ]; then
	for list in requirements:python instructor:instructor; do
		pins=$agents/${list%:*}.txt venv=$cache/${list#*:}
		if ! cmp -s "$pins" "$venv/pins"; then
			rm -rf "$venv"
			python3 -m venv "$venv"
			"$venv/bin/pip" install -q --no-deps -r "$pins"
			cp "$pins" "$venv/pins"
		fi
	done
fi

go vet -tags agents ./app/agents
limit=25m
if [ "${GODWIT_TEST:-}" = all ]; then limit=60m; fi
GODWIT_AGENTS=$cache CI=true go test -tags agents -count=1 -timeout "$limit" ./app/agents
