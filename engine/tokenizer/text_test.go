package tokenizer

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"godwit/engine/llm"
)

// TestOdd loads vocabularies that are unusual but valid.
func TestOdd(t *testing.T) {
	bpe, spm := tinyBPE(), tinySPM()
	nan := slices.Clone(spm[keyScore].([]float32))
	for i := range nan {
		nan[i] = []float32{float32(math.NaN()), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 0}[i%4]
	}
	for name, m := range map[string]meta{
		"odd merges":       bpe.with(meta{keyMerge: []string{"", " ", "  ", "a", "a ", " a", "h  e", "x y z", "qq zz", "h e", "h e"}}),
		"equal tokens":     bpe.with(meta{keyList: append(slices.Clone(bpe[keyList].([]string)), "a", "a"), keyTypes: nil}),
		"empty tokens":     bpe.with(meta{keyList: []string{"", "a", ""}, keyTypes: nil}),
		"one token":        spm.with(meta{keyList: []string{"a"}, keyScore: nil, keyTypes: nil}),
		"odd scores":       spm.with(meta{keyScore: nan}),
		"no scores":        spm.with(meta{keyScore: nil}),
		"odd types":        spm.with(meta{keyTypes: types(len(nan), map[int]int32{0: -1, 1: 99, 3: 0})}),
		"short bytes":      spm.with(meta{keyList: []string{"<0x", "<0xZZ>", "a"}, keyScore: nil, keyTypes: []int32{6, 6, 6}}),
		"no unknown token": tinyUGM().with(meta{"tokenizer.ggml.unknown_token_id": nil, keyList: []string{"▁"}, keyScore: nil, keyTypes: nil}),
	} {
		tok := m.new(t)
		for _, text := range []string{"hello he", "a\x00\xff é▁", "[EMPTY_0]"} {
			ids := tok.EncodeText(text, true, true)
			tok.Decode(ids, true)
			for _, id := range ids {
				if !tok.valid(id) {
					t.Errorf("%s: %q gave token %d of %d", name, text, id, tok.VocabSize())
				}
			}
		}
	}
	tok := bpe.with(meta{keyList: []string{"", "a", ""}, keyTypes: nil}).new(t)
	if id, ok := tok.Find("[EMPTY_2]"); !ok || id != 2 {
		t.Errorf("an empty token is found as %d", id)
	}
}

func TestPieces(t *testing.T) {
	for name, m := range kinds() {
		tok := m.new(t)
		for id := range llm.Token(tok.VocabSize()) {
			if got, want := tok.Piece(id), tok.AppendPiece(nil, id, true); !bytes.Equal(got, want) {
				t.Errorf("%s: piece %d is %q, want %q", name, id, got, want)
			}
		}
	}
	tok := tinyBPE().new(t)
	im, _ := tok.Find("<|im_end|>")
	if got := tok.AppendPiece(nil, im, false); len(got) != 0 || !tok.IsControl(im) || !tok.IsEOG(im) {
		t.Errorf("control token %d shows %q", im, got)
	}
}

// TestNoByte decodes tokens of a byte-level vocabulary that are not written in its
// alphabet. They must be visible, and a long one must not take too much memory.
func TestNoByte(t *testing.T) {
	long := strings.Repeat("世", 100_000)
	tok := tinyBPE().with(meta{keyList: []string{"a世", long}, keyTypes: nil}).new(t)
	if got := string(tok.Piece(0)); got != "a[UNK_BYTE_0xe4b896a世]" {
		t.Errorf("got %q", got)
	}
	if n := len(tok.Piece(1)); n > 100_000*(shown+20) {
		t.Errorf("%d bytes for a token of %d", n, len(long))
	}
}

func TestCleanSpaces(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"a b":                     "a b",
		"Hello , world !":         "Hello, world!",
		" . ,":                    ".,",
		"a  ?":                    "a ?",
		"it 's we 're I 've I 'm": "it's we're I've I'm",
		"don 't she 'd he 'll":    "don 't she 'd he 'll",
		"rock ' n ' roll":         "rock'n'roll",
		"' a '":                   "' a '",
		"a ' ' b":                 "a'' b",
		"x 'r":                    "x 'r",
	} {
		if got := string(cleanSpaces([]byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"aé世🙂":                 "aé世🙂",
		"\xff\xfe":             "\uFFFD\uFFFD",
		"\xe4\xbd":             "\uFFFD\uFFFD",
		"a\xe4":                "a\uFFFD",
		"\xed\xa0\x80":         "\xed\xa0\x80", // surrogates stay
		"\xc0\x80":             "\x00",         // an overlong form becomes short
		"\xe0\x80\xaf":         "/",
		"\xf4\x90\x80\x80":     strings.Repeat("\uFFFD", 4), // above the last code point
		"\xf8\x88\x80\x80\x80": strings.Repeat("\uFFFD", 5),
		"\xe2\x28\xa1":         "\uFFFD(\uFFFD",
	} {
		if got := string(normalize(nil, []byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestShortAndLong checks that both merge algorithms give the same result.
func TestShortAndLong(t *testing.T) {
	for name, m := range map[string]meta{"bpe": tinyBPE(), "spm": tinySPM()} {
		tok := m.new(t)
		v := tok.vocab()
		for _, word := range []string{"a", "aaaaa", "hellohello", strings.Repeat("ahella", 40), strings.Repeat("a", 47), "Ã©Ã©", "▁▁aab"} {
			load := func() *merger {
				g := &merger{voc: v}
				for i := 0; i < len(word); {
					n := width([]byte(word), i)
					g.syms = append(g.syms, v.symbol([]byte(word), i, n))
					i += n
				}
				return g
			}
			a, b := load(), load()
			a.mergeShort([]byte(word))
			b.mergeLong([]byte(word))
			alive := slices.DeleteFunc(b.syms, func(s sym) bool { return s.size == 0 })
			if !slices.Equal(a.syms, alive) {
				t.Errorf("%s: %q gave %v and %v", name, word, a.syms, alive)
			}
		}
	}
}

// TestLongWord encodes a word that is longer than the limit for one merge.
func TestLongWord(t *testing.T) {
	tok := tinySPM().new(t)
	text := strings.Repeat("a", maxWord+5)
	ids := tok.EncodeText(text, false, false)
	if got := string(tok.Decode(ids, false)); got != text {
		t.Errorf("%d bytes came back as %d", len(text), len(got))
	}
	if len(ids) > len(text)/4+8 {
		t.Errorf("%d tokens for %d bytes", len(ids), len(text))
	}
}
