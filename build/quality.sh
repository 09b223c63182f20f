#!/usr/bin/env bash
# Writes docs/quality.md: what each pair of cache types costs on the two demo
# models, by the procedure of the perplexity goldens. About half an hour on one
# core. Finished pairs are kept, so an interrupted run goes on where it was.
#   build/quality.sh [threads]
set -euo pipefail
cd "$(dirname "$0")/.."
threads=${1:-1}
golden=${GODWIT_GOLDEN:-../shared/golden}/models/ppl/ppl.csv
peer=()
godwit=$(mktemp -d)/godwit
trap 'rm -rf "$(dirname "$godwit")"' EXIT
go build -o "$godwit" ./app/cmd/godwit
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)

table() { # model, its name in the peer's file, pairs whose agreement is measured, further flags
	[[ -f $golden ]] && peer=(--peer "$golden" --peer-as "$2")
	"$godwit" --log-level error eval table "$1" -t "$threads" --text prose --chunks 8 --agree "$3" "${peer[@]}" "${@:4}"
}

"$godwit" --log-level error pull demo >&2
"$godwit" --log-level error pull gemma-demo >&2
out=$(mktemp)
{
	cat build/quality.head.md
	printf '\nMade by `build/quality.sh %s` on %s %s%s.\n' "$threads" "$(uname -s)" "$(uname -m)" "${cpu:+, $cpu}, $threads thread(s), commit $(git rev-parse --short HEAD)"
	printf '\n## SmolLM2-135M-Instruct, Q4_1 (head size 64, 3 query heads a KV head)\n\n'
	table demo smollm2 f32,q8_0,q8_0/turbo4,q8_0/turbo3
	printf '\n## Gemma-3-270M, Q4_K_M (head size 256, 4 query heads on 1 KV head, a window of 512 in most layers)\n\n'
	table gemma-demo gemma3 f32,q8_0,q8_0/turbo4,q8_0/turbo3
	printf '\n## The same with float attention\n\n'
	printf 'Gemma-3-270M with `--attn-math float`: what of the loss is the format, not the arithmetic.\n\n'
	table gemma-demo gemma3 f32,q8_0,f32/turbo3,q8_0/turbo3 --attn-math float --pairs f16
	cat build/quality.tail.md
	cat build/quality.windows.md # made by the commands that it names
} >"$out"
mkdir -p docs
install -m 644 "$out" docs/quality.md
rm "$out"
