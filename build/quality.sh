#!/usr/bin/env bash
# Writes docs/quality.md: the quality loss of each pair of cache types on the two
# demo models, measured like the golden perplexities. With --long it writes
# docs/quality-long.md instead, for windows of 8,192 and 32,768 tokens. Finished
# cells of the tables are kept, so that an interrupted run continues where it stopped.
#   build/quality.sh [--long] [threads]
# GODWIT=BINARY measures with that binary instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."
option=
[[ ${1-} == --long ]] && option=' --long' && shift
threads=${1:-1}
golden=${GODWIT_GOLDEN:-../shared/golden}/models/ppl/ppl.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
godwit=${GODWIT:-$work/godwit}
[[ -n ${GODWIT-} ]] || go build -o "$godwit" ./app/cmd/godwit
commit=$("$godwit" version | sed -n 's/^commit *\(.\{7\}\).*/\1/p')
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)

table() { # table MODEL FLAGS...
	"$godwit" --log-level error eval table "$@" -t "$threads"
}

pairs() { # pairs MODEL PEER_NAME FLAGS...: PEER_NAME is the model's name in the peer's file
	local peer=()
	[[ -f $golden ]] && peer=(--peer "$golden" --peer-as "$2")
	table "$1" --text prose --keep --some f32,q8_0,q8_0/turbo4,q8_0/turbo3,f32/turbo3,q4_0-rot,turbo3,gw4,gw3 "${peer[@]}" "${@:3}"
}

# Measures caches of two to four bits, with and without an exact window.
caches() { # caches MODEL WINDOW_FLAGS...
	table "$@" --wide --keep --pairs f16,q4_0-rot,turbo4,turbo3,turbo2
	table "$@" --wide --keep --rows --exact-window 64 --exact-sinks 4 --pairs q4_0-rot,turbo3
	table "$@" --wide --keep --rows --pairs gw4,gw3,gw2
	table "$@" --wide --keep --rows --kv-auto 3
}

# drop deletes the kept log-probabilities of f16, which are large. All rows of a
# table use them, so drop runs last.
drop() { table "$@" --wide --rows --pairs f16 >/dev/null; }

made() {
	printf '\nMade by `build/quality.sh%s %s` on %s %s%s.\n' "$option" "$threads" "$(uname -s)" "$(uname -m)" "${cpu:+, $cpu}, $threads thread(s), commit $commit"
}

short() {
	local list=f16,q8_0,q8_0/turbo4,q8_0/turbo3,q8_0/turbo2,q8_0-rot,q4_0-rot,turbo4,turbo4/turbo3,turbo3,turbo2,gw4,gw4/gw3,gw3,gw2,tbq4,tbq3,f32
	cat build/quality.head.md
	made
	printf '\n## SmolLM2-135M-Instruct, Q4_1 (head size 64, 3 query heads a KV head)\n\n'
	pairs demo smollm2 --pairs "$list"
	printf '\n## Gemma-3-270M, Q4_K_M (head size 256, 4 query heads on 1 KV head, a window of 512 in most layers)\n\n'
	pairs gemma-demo gemma3 --pairs "$list"
	printf '\n## The same with float attention\n\n'
	printf 'Gemma-3-270M with `--attn-math float`, which shows how much of the loss comes from the format and not from the arithmetic.\n\n'
	pairs gemma-demo gemma3 --attn-math float --pairs q8_0,f32/turbo3,q8_0/turbo3
	drop demo --text prose
	drop gemma-demo --text prose
	cat build/quality.tail.md
	cat build/quality.windows.md # its figures come from the commands that it names
}

# The windows of 8,192 tokens score every fourth prediction. The longest window
# scores one of 16, and uses all texts because the prose is too short for it.
long() {
	local window=(--text prose -c 8192 --chunks 1 --every 4 --tasks kld,needle)
	local longest=(--text all -c 32768 --chunks 1 --every 16 --tasks kld)
	cat build/quality-long.head.md
	made
	printf '\n## SmolLM2-135M-Instruct\n\n'
	caches demo "${window[@]}"
	drop demo "${window[@]}"
	printf '\n## Gemma-3-270M\n\n'
	caches gemma-demo "${window[@]}"
	drop gemma-demo "${window[@]}"
	printf '\n## Gemma-3-270M, 32,768 tokens\n\n'
	caches gemma-demo "${longest[@]}"
	drop gemma-demo "${longest[@]}"
	cat build/quality-long.tail.md
}

"$godwit" --log-level error pull demo >&2
"$godwit" --log-level error pull gemma-demo >&2
out=$work/out
if [[ -n $option ]]; then
	long >"$out"
	install -m 644 "$out" docs/quality-long.md
else
	short >"$out"
	install -m 644 "$out" docs/quality.md
fi
