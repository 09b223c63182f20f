package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrPre is the class of errors for an unknown pre-tokenizer.
var ErrPre = errors.New("unknown pre-tokenizer")

// maxPasses is the maximum number of passes in a pre-tokenizer.
const maxPasses = 6

// A pre describes a value of tokenizer.ggml.pre for a BPE vocabulary. It
// decides how text is cut into words before pairs are merged, and holds
// defaults for keys that a file lacks.
type pre struct {
	scans        []scan
	raw          bool // whether the vocabulary is plain UTF-8 with <0xXX> tokens, instead of GPT-2's byte alphabet
	escaped      bool // whether a space is written as U+2581
	metaspace    bool // whether every U+2581 starts a word, and one is added before each line
	newlines     bool // whether a run of line breaks that is a token is used as it is, without merges
	ignoreMerges bool // whether a word that is a token is used as it is, without merges
	addBOS       bool // default if the file does not have the key
	forceBOS     bool // whether BOS is added even if the file says otherwise, because early files of the family are wrong
	noBOS        bool // whether the kind's default BOS token is not used
	addSep       bool
	clean        bool // whether Decode removes spaces before punctuation
}

// Passes that several pre-tokenizers share.
var (
	llama3Scan = pattern{contractions: true, digits: 3, tail: "\r\n"}.scan
	qwen2Scan  = pattern{contractions: true, digits: 1, tail: "\r\n"}.scan
	gpt4oScan  = cased{pattern: pattern{contractions: true, digits: 3, tail: "\r\n/"}}.scan
	deepseek3s = []scan{digits3, runs(within(ideographs)), deepseek3{}.scan}
)

// pres maps names to pre-tokenizers. Names and patterns come from llama.cpp's
// convert_hf_to_gguf.py, and from the tokenizer.json files to which its names
// refer. For the o200k family, llama.cpp simplifies the pattern and does not
// distinguish upper and lower case beyond ASCII. Here the model's own pattern
// is used.
var pres = func() map[string]pre {
	all := map[string]pre{}
	add := func(p pre, names ...string) {
		for _, name := range names {
			all[name] = p
		}
	}
	addFirst(add)
	addSecond(add)
	return all
}()

// addFirst adds the families with GPT-2's pattern, with cl100k's, and with
// similar ones.
func addFirst(add func(pre, ...string)) {
	add(pre{clean: true, scans: []scan{runs(has(punct).also("$+<=>^~|")), gpt2, digits, triples}}, "default")
	add(pre{clean: true, scans: []scan{runs(has(punct).also("$+<=>^~|`")), gpt2, triples}}, "falcon")
	add(pre{clean: true, scans: []scan{gpt2}},
		"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
		"modern-bert", "mpt", "olmo", "jais", "exaone4")
	add(pre{scans: []scan{gpt2}}, "trillion", "granite-docling")
	add(pre{clean: true, addSep: true, scans: []scan{gpt2}}, "jina-v1-en", "jina-v2-code", "roberta-bpe")
	add(pre{clean: true, scans: []scan{digit, gpt2}},
		"starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2")
	add(pre{scans: []scan{digit, gpt2}}, "command-r", "smollm")

	add(pre{clean: true, ignoreMerges: true, addBOS: true, scans: []scan{llama3Scan}},
		"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano")
	add(pre{clean: true, scans: []scan{llama3Scan}}, "dbrx", "smaug-bpe")
	add(pre{clean: true, noBOS: true, scans: []scan{llama3Scan}}, "chatglm-bpe")
	add(pre{clean: true, noBOS: true, ignoreMerges: true, scans: []scan{llama3Scan}}, "glm4", "glm5")
	add(pre{clean: true, scans: []scan{pattern{contractions: true, digits: 3, tail: "\r\n", halves: true}.scan}}, "jais-2")
	add(pre{clean: true, ignoreMerges: true, scans: []scan{digits3, pattern{contractions: true, tail: "\r\n"}.scan}}, "minicpm5")

	add(pre{scans: []scan{qwen2Scan}},
		"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "solar-open", "grok-2",
		"bailingmoe", "bailingmoe2", "llada-moe")
	add(pre{clean: true, scans: []scan{qwen2Scan}}, "stablelm2", "megrez")
	add(pre{scans: []scan{breaks, qwen2Scan}}, "laguna")
	add(pre{scans: []scan{pattern{digits: 1, tail: "\r\n"}.scan}}, "ufakzeka")
	add(pre{scans: []scan{pattern{contractions: true, digits: 1}.scan}}, "seed-coder")
	add(pre{scans: []scan{pattern{contractions: true, marks: true, digits: 1, tail: "\r\n"}.scan}}, "qwen35")
	add(pre{clean: true, scans: []scan{pattern{contractions: true, phrases: true, digits: 1, tail: "\r\n/", oneTail: true}.scan}}, "exaone-moe")
}

// addSecond adds the families whose patterns distinguish case or scripts, and
// all other families.
func addSecond(add func(pre, ...string)) {
	add(pre{scans: []scan{gpt4oScan}}, "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2")
	add(pre{ignoreMerges: true, scans: []scan{gpt4oScan}}, "granite-embed-multi-97m")
	add(pre{scans: []scan{grouped, gpt4oScan}}, "tiny_aya", "cohere2moe")
	add(pre{ignoreMerges: true, addBOS: true, scans: []scan{cased{pattern: pattern{digits: 1, tail: "\r\n/"}}.scan}}, "tekken")
	add(pre{scans: []scan{cased{han: true, pattern: pattern{contractions: true, digits: 3, tail: "\r\n"}}.scan}}, "kimi-k2")
	add(pre{ignoreMerges: true, scans: []scan{
		either(within(hangul), within(chinese), within(bopomofo), within(ideographs)),
		cased{pattern: pattern{contractions: true, digits: 1, tail: "\r\n/"}}.scan,
	}}, "youtu")

	add(pre{scans: []scan{
		one(within(ranges{{'\n', '\n'}, {'\r', '\r'}})), spaced(casedLetter), spaced(within(wideMarks)), trailing,
		runs(within(hanOrHangul)), digits,
	}}, "deepseek-llm")
	add(pre{scans: []scan{
		one(within(ranges{{'\n', '\n'}, {'\r', '\r'}})), spaced(has(letter)), spaced(has(punct)),
		runs(within(hanOrHangul)), digit,
	}}, "deepseek-coder")
	add(pre{scans: deepseek3s}, "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	add(pre{scans: []scan{digits3, runs(within(ideographs)), deepseek3{oneBreak: true}.scan, digit}}, "spark2_5")
	add(pre{scans: []scan{fromRight, runs(within(asian)), deepseek3{}.scan}}, "afmoe")

	add(pre{clean: true, scans: []scan{bloom}}, "bloom", "gpt3-finnish")
	add(pre{scans: []scan{bloom}}, "poro-chat")
	add(pre{scans: []scan{bloom, digit}}, "viking")
	add(pre{scans: []scan{digits, thousands}}, "superbpe")
	add(pre{addBOS: true, scans: []scan{sentinel, picture, indents, digit, one(has(punct).also("$+<=>^`|~")), gpt2}}, "chameleon")

	add(pre{raw: true, escaped: true, newlines: true, forceBOS: true, clean: true, scans: []scan{breaks}}, "gemma4", "granite-embed-multi-311m")
	add(pre{raw: true, escaped: true, newlines: true, metaspace: true, clean: true, scans: []scan{breaks}}, "mmbert")
	add(pre{raw: true, escaped: true, scans: []scan{breaks}}, "sarvam-moe")
	add(pre{raw: true, clean: true, scans: []scan{runs(func(t *classes, s []byte, i int) bool { return !has(space)(t, s, i) })}}, "whitespace")
}

// PreTokenizers lists the supported values of tokenizer.ggml.pre, sorted.
func PreTokenizers() []string { return slices.Sorted(maps.Keys(pres)) }

// lookupPre finds a pre-tokenizer by name.
func lookupPre(name string) (pre, error) {
	p, ok := pres[name]
	if !ok {
		return pre{}, fmt.Errorf("%w: %.80q; known are %s", ErrPre, name, strings.Join(PreTokenizers(), ", "))
	}
	return p, nil
}
