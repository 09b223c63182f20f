package tokenizer

import (
	"bytes"
	"fmt"
	"testing"

	"godwit/engine/gguf"
)

// meta is metadata to build a vocabulary from.
type meta map[string]any

// with returns a copy with some values replaced. A nil value removes the key.
func (m meta) with(changes meta) meta {
	out := meta{}
	for _, from := range []meta{m, changes} {
		for k, v := range from {
			if out[k] = v; v == nil {
				delete(out, k)
			}
		}
	}
	return out
}

// kv writes and parses a file with the metadata.
func (m meta) kv(t testing.TB) *gguf.Metadata {
	t.Helper()
	f, err := gguf.Parse(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return f.KV
}

func (m meta) file(t testing.TB) []byte {
	t.Helper()
	var list []gguf.KV
	for k, v := range m {
		list = append(list, gguf.KV{Key: k, Value: v})
	}
	var out bytes.Buffer
	if err := gguf.Write(&out, list, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (m meta) new(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := New(m.kv(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// types converts token types to their numbers in files.
func types(n int, changes map[int]int32) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = 1
	}
	for i, v := range changes {
		list[i] = v
	}
	return list
}

// tinyBPE has the 256 bytes, some merges, and at the end control tokens. One of
// them has a wrong type, and two are texts that a person may write.
func tinyBPE() meta {
	var tokens []string
	for b := range 256 {
		tokens = append(tokens, string(byteRunes[b]))
	}
	merges := []string{"h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ w", "a a", "aa aa", "Ċ Ċ", "Ã ©"}
	tokens = append(tokens, "he", "ll", "hell", "hello", "Ġhello", "Ġw", "aa", "aaaa", "ĊĊ", "Ã©")
	n := len(tokens)
	tokens = append(tokens, "<|im_start|>", "<|im_end|>", "<|role|>", "<b>", "<|endoftext|>")
	return meta{
		keyModel: "gpt2", keyPre: "gpt-2", keyList: tokens, keyMerge: merges,
		keyTypes:                      types(len(tokens), map[int]int32{n: 3, n + 1: 3, n + 2: 4, n + 3: 4, n + 4: 3}),
		"tokenizer.ggml.bos_token_id": uint32(n + 4), "tokenizer.ggml.eos_token_id": uint32(n + 1),
	}
}

// tinySPM has an unknown token, BOS, EOS, the 256 bytes and some words.
func tinySPM() meta {
	tokens := []string{"<unk>", "<s>", "</s>"}
	kinds := map[int]int32{0: 2, 1: 3, 2: 3}
	for b := range 256 {
		kinds[len(tokens)] = 6
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
	}
	scores := make([]float32, len(tokens))
	for i, s := range []string{"▁", "a", "b", "▁a", "ab", "▁ab", "aa", "aaaa", "▁▁", "é"} {
		tokens = append(tokens, s)
		scores = append(scores, -float32(i))
	}
	kinds[len(tokens)] = 4
	tokens, scores = append(tokens, "<b>"), append(scores, 0)
	return meta{keyModel: "llama", keyList: tokens, keyScore: scores, keyTypes: types(len(tokens), kinds)}
}

// tinyRaw is a vocabulary like Gemma 4's.
func tinyRaw() meta {
	m := tinySPM()
	return m.with(meta{
		keyModel: "gemma4", keyMerge: []string{"▁ a", "a b", "▁ ab", "a a", "aa aa", "▁ ▁", "b ▁a"},
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
	})
}

func tinyWPM() meta {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁the", "▁cat", "s", "▁e", "▁1", "2", "▁.", "▁中"}
	return meta{
		keyModel: "bert", keyList: tokens, keyTypes: types(len(tokens), map[int]int32{0: 3, 1: 3, 2: 3, 3: 3}),
		"tokenizer.ggml.bos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(1),
		"tokenizer.ggml.seperator_token_id": uint32(3), "tokenizer.ggml.padding_token_id": uint32(0),
	}
}

func tinyUGM() meta {
	tokens := []string{"<pad>", "</s>", "<unk>", "▁", "▁the", "▁cat", "s", "a", "b", "ab", "é"}
	scores := []float32{0, 0, 0, -2, -3, -4, -5, -6, -6, -7, -8}
	return meta{
		keyModel: "t5", keyList: tokens, keyScore: scores, keyTypes: types(len(tokens), map[int]int32{0: 3, 1: 3, 2: 2}),
		"tokenizer.ggml.add_space_prefix": true, keyChars: tinyCharsmap(),
	}
}

// tinyCharsmap replaces "A" by "a". It is a double array with a root at 0 whose
// base is 0, the node of "A" at 0x41, a leaf, and the leaf's value at 0x41^0x100.
func tinyCharsmap() []uint8 {
	units := make([]byte, 4*0x200)
	put := func(at int, v uint32) {
		units[4*at], units[4*at+1], units[4*at+2], units[4*at+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
	put('A', 0x100<<10|1<<8|'A')
	put('A'^0x100, 1<<31)
	n := len(units)
	data := append([]byte{byte(n), byte(n >> 8), 0, 0}, units...)
	return append(data, 'a', 0)
}

func tinyRWKV() meta {
	tokens := []string{"<s>", `\x00`, "a", "ab", "abc", `\n`, `\xff`, `\\`}
	return meta{keyModel: "rwkv", keyList: tokens, "tokenizer.ggml.unknown_token_id": uint32(0)}
}

// kinds has one vocabulary of each kind.
func kinds() map[string]meta {
	return map[string]meta{
		"bpe": tinyBPE(), "spm": tinySPM(), "raw": tinyRaw(), "wpm": tinyWPM(), "ugm": tinyUGM(), "rwkv": tinyRWKV(),
		"metaspace": tinyRaw().with(meta{keyModel: "gpt2", keyPre: "mmbert"}),
		"solid":     tinyRaw().with(meta{keyModel: "whitespace", keyPre: "whitespace"}),
	}
}
