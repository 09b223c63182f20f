package tokenizer

import (
	"bytes"
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/llm"
)

var fuzzSeeds = []string{
	"", "hello hello", "it's 12345\n\n  x", "é世🙂\u0301", "\xff\xc3\xe4\xbd", "\xf0\x9f", "<|im_end|><b>", "▁▁a", " a  b ", "\x00\x01", "\xed\xa0\x80", "\xf5\x80\x80\x80",
}

// FuzzRoundTrip encodes and decodes text with a byte-level vocabulary. The text
// must be unchanged, except for bytes that are not part of a code point.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, false)
		f.Add(s, true)
	}
	tok := tinyBPE().new(f)
	f.Fuzz(func(t *testing.T, text string, parse bool) {
		var got []byte
		for _, id := range tok.EncodeText(text, false, parse) {
			got = tok.AppendPiece(got, id, true)
		}
		if want := normalize(nil, []byte(text)); !bytes.Equal(got, want) {
			t.Errorf("%q came back as %q, want %q", text, got, want)
		}
	})
}

// FuzzKinds encodes random text with every kind of vocabulary, in one piece and in
// three, and decodes the result.
func FuzzKinds(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, s, s, true)
	}
	vocabs := map[string]*Tokenizer{}
	for name, m := range kinds() {
		vocabs[name] = m.new(f)
	}
	for _, name := range []string{"tekken", "deepseek-llm", "chameleon", "superbpe", "jais-2", "exaone-moe", "afmoe", "tiny_aya", "spark2_5", "viking", "kimi-k2", "youtu"} {
		vocabs[name] = tinyBPE().with(meta{keyPre: name}).new(f)
	}
	f.Fuzz(func(t *testing.T, a, b, c string, trusted bool) {
		for name, tok := range vocabs {
			pieces := []Piece{{a, trusted}, {b, false}, {c, trusted}}
			ids := tok.Encode(nil, pieces, Options{AddSpecial: true, ParseSpecial: true})
			for _, id := range append(ids, tok.EncodeText(a+b+c, true, trusted)...) {
				if !tok.valid(id) {
					t.Fatalf("%s: token %d of %d", name, id, tok.VocabSize())
				}
			}
			tok.Decode(ids, trusted)
			d := tok.NewDecoder(trusted)
			var out []byte
			for _, id := range ids {
				out = d.Append(out, id)
			}
			d.Flush(out)
		}
	})
}

// FuzzNew reads vocabularies from damaged files.
func FuzzNew(f *testing.F) {
	for _, m := range kinds() {
		f.Add(m.file(f), "hello <|im_end|> é\xff")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		tok, err := New(file.KV)
		if err != nil {
			return
		}
		ids := tok.EncodeText(text, true, true)
		tok.Decode(ids, true)
		for id := range llm.Token(min(tok.VocabSize(), 1000)) {
			tok.Piece(id)
		}
	})
}
