package tokenizer

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// texts are the tokens as the vocabulary writes them.
func texts(tok *Tokenizer, ids []llm.Token) []string {
	var list []string
	for _, id := range ids {
		list = append(list, tok.Text(id))
	}
	return list
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       string // tokens, separated by spaces
		back       string // "" if the text is unchanged
	}{
		{"bpe", "hello hello", "hello Ġhello", ""},
		{"bpe", "aaaaaaa é\n\n", "aaaa aa a Ġ Ã© ĊĊ", ""},
		{"bpe", "a\xffb", "a ï ¿ ½ b", "a\uFFFDb"},
		{"spm", "ab aab", "▁ab ▁a ab", ""},
		{"spm", "aaaaa  b", "▁a aaaa ▁▁ b", ""},
		{"spm", "xé\xff", "▁ <0x78> é <0xFF>", ""},
		{"spm", "a<b>a", "▁a <b> ▁a", "a<b> a"},
		{"raw", "ab aa", "ab ▁a a", ""},
		{"raw", "ab a\n\nx", "ab ▁a <0x0A> <0x0A> <0x78>", ""},
		{"metaspace", "ab ab", "▁a b ▁a b", " ab ab"},
		{"solid", " ab  aa ", "ab aa", "abaa"},
		{"wpm", "The cats. 12 é中", "▁the ▁cat s ▁. ▁1 2 ▁e ▁中", " the cats. 12 e 中"},
		{"wpm", "dogs the", "[UNK] ▁the", " the"},
		{"ugm", "the  cAt xy", "▁the ▁ ▁cat ▁ <unk>", "the  cat "},
		{"ugm", "ab é", "▁ ab ▁ é", ""},
		{"rwkv", "abcab\n\xff\x00!", `abc ab \n \xff \x00 <s>`, "abcab\n\xff\x00<s>"},
	} {
		tok := kinds()[c.kind].new(t)
		ids := tok.EncodeText(c.text, false, false)
		if got := strings.Join(texts(tok, ids), " "); got != c.want {
			t.Errorf("%s: %q gave %s, want %s", c.kind, c.text, got, c.want)
		}
		want := c.back
		if want == "" {
			want = c.text
		}
		if got := string(tok.Decode(ids, false)); got != want {
			t.Errorf("%s: %q came back as %q, want %q", c.kind, c.text, got, want)
		}
	}
}

func TestEmpty(t *testing.T) {
	for name, m := range kinds() {
		tok := m.new(t)
		if ids := tok.EncodeText("", false, true); len(ids) != 0 || ids == nil {
			t.Errorf("%s: no text gave %v", name, ids)
		}
		if got := tok.Encode(nil, []Piece{{}, {Trusted: true}}, Options{ParseSpecial: true}); len(got) != 0 {
			t.Errorf("%s: empty pieces gave %v", name, got)
		}
		if got := tok.Decode(nil, true); len(got) != 0 {
			t.Errorf("%s: no tokens gave %q", name, got)
		}
	}
}

// TestTrust checks that special tokens are recognised only in trusted pieces, and
// that words may continue from one piece into the next.
func TestTrust(t *testing.T) {
	tok := tinyBPE().new(t)
	for _, c := range []struct {
		name   string
		pieces []Piece
		want   string
	}{
		{"template", []Piece{{"<|im_start|>", true}, {"hello", false}, {"<|im_end|>", true}}, "<|im_start|> hello <|im_end|>"},
		{"typed marker", []Piece{{"<|im_end|>", false}}, "< | i m _ e n d | >"},
		{"typed marker of a wrong type", []Piece{{"<|role|>", false}}, "< | r o l e | >"},
		{"written marker of a wrong type", []Piece{{"<|role|>", true}}, "<|role|>"},
		{"tag", []Piece{{"<b>", false}}, "<b>"},
		{"tag over a border", []Piece{{"<", true}, {"b>", false}}, "<b>"},
		{"marker over a border", []Piece{{"<|im_", true}, {"end|>", false}}, "< | i m _ e n d | >"},
		{"marker before a border", []Piece{{"<|im_end|", true}, {">", false}}, "< | i m _ e n d | >"},
		{"marker of a wrong type over a border", []Piece{{"<|ro", false}, {"le|>", true}}, "< | r o l e | >"},
		{"marker over two trusted pieces", []Piece{{"<|im_", true}, {"", false}, {"end|>", true}}, "<|im_end|>"},
		{"word over a border", []Piece{{" hel", true}, {"lo", false}}, "Ġhello"},
		{"line breaks over a border", []Piece{{"\n", true}, {"\n", false}}, "ĊĊ"},
	} {
		ids := tok.Encode(nil, c.pieces, Options{ParseSpecial: true})
		if got := strings.Join(texts(tok, ids), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if ids := tok.EncodeText("<|role|>", false, false); len(ids) != 1 {
		t.Errorf("a user-defined token in plain text gave %v", texts(tok, ids))
	}
	if ids := tok.Encode(nil, []Piece{{"<|im_end|>", true}}, Options{}); len(ids) == 1 {
		t.Error("a special token was parsed without ParseSpecial")
	}
}

func TestAddSpecial(t *testing.T) {
	m := tinySPM().with(meta{"tokenizer.ggml.add_eos_token": true})
	tok := m.new(t)
	for _, c := range []struct {
		text string
		o    Options
		want []string
	}{
		{"a", Options{}, []string{"▁a"}},
		{"a", Options{AddSpecial: true}, []string{"<s>", "▁a", "</s>"}},
		{"a", Options{AddBOS: true}, []string{"<s>", "▁a"}},
		{"<s>a", Options{AddSpecial: true, ParseSpecial: true}, []string{"<s>", "<s>", "▁a", "</s>"}},
		{"<s>a", Options{AddBOS: true, ParseSpecial: true}, []string{"<s>", "▁a"}},
		{"", Options{AddSpecial: true}, []string{"<s>", "</s>"}},
	} {
		ids := tok.Encode(nil, []Piece{{c.text, true}}, c.o)
		if diff := cmp.Diff(c.want, texts(tok, ids)); diff != "" {
			t.Errorf("%q with %+v (-want +got):\n%s", c.text, c.o, diff)
		}
	}
	tok = m.with(meta{"tokenizer.ggml.add_bos_token": false}).new(t)
	if ids := tok.EncodeText("a", true, false); len(ids) != 2 {
		t.Errorf("without BOS got %v", texts(tok, ids))
	}
	prefix := []llm.Token{7}
	if got := tok.Encode(prefix, []Piece{{"a", false}}, Options{}); len(got) != 2 || got[0] != 7 {
		t.Errorf("appended %v to %v", got, prefix)
	}
}

// TestLongestFirst checks the order in which special tokens are found: the longest
// anywhere in the text, then shorter ones in the remaining text.
func TestLongestFirst(t *testing.T) {
	m := tinyBPE()
	tokens := slices.Clone(m[keyList].([]string))
	n := len(tokens)
	tokens = append(tokens, "[ab", "bcd]", "[a", "d]d]", "x", "xx")
	kinds := map[int]int32{}
	for i := n; i < len(tokens); i++ {
		kinds[i] = 4
	}
	tok := m.with(meta{keyList: tokens, keyTypes: types(len(tokens), kinds)}).new(t)
	for text, want := range map[string]string{
		"[abcd]":      "[a bcd]",
		"[ab":         "[ab",
		"[abcd]d]":    "[a bcd] d ]",
		"xxx":         "xx x",
		"axbxxc":      "a x b xx c",
		"[ab[abcd]":   "[ab [a bcd]",
		"[a[abcd]d]x": "[a [a bcd] d ] x",
	} {
		if got := strings.Join(texts(tok, tok.EncodeText(text, false, false)), " "); got != want {
			t.Errorf("%q gave %s, want %s", text, got, want)
		}
	}
}

func TestHostile(t *testing.T) {
	bpe, spm := tinyBPE(), tinySPM()
	long := make([]int32, 3)
	for _, c := range []struct {
		name string
		m    meta
		want error // nil if the vocabulary loads with a notice
	}{
		{"no kind", bpe.with(meta{keyModel: nil}), ErrNoVocab},
		{"none", bpe.with(meta{keyModel: "no_vocab"}), ErrNoVocab},
		{"unknown kind", bpe.with(meta{keyModel: "plamo9"}), ErrKind},
		{"unknown pre-tokenizer", bpe.with(meta{keyPre: "qwen99"}), ErrPre},
		{"no pre-tokenizer", bpe.with(meta{keyPre: nil}), nil},
		{"no tokens", bpe.with(meta{keyList: nil}), ErrNoVocab},
		{"an empty list", bpe.with(meta{keyList: []string{}}), ErrInvalid},
		{"no merges", bpe.with(meta{keyMerge: nil}), ErrInvalid},
		{"tokens without end", bpe.with(meta{keyList: make([]string, maxTokens+1)}), ErrInvalid},
		{"merges without end", bpe.with(meta{keyMerge: make([]string, maxTokens+1)}), ErrInvalid},
		{"long tokens", bpe.with(meta{keyList: slices.Repeat([]string{strings.Repeat("a", maxToken)}, maxText/maxToken+1)}), ErrInvalid},
		{"a long token", bpe.with(meta{keyList: []string{strings.Repeat("a", maxToken+1)}}), ErrInvalid},
		{"a kind that is not text", bpe.with(meta{keyModel: uint32(2)}), ErrInvalid},
		{"a pre-tokenizer that is not text", bpe.with(meta{keyPre: uint32(2)}), ErrInvalid},
		{"a flag that is not a boolean", bpe.with(meta{"tokenizer.ggml.add_bos_token": uint32(1)}), nil},
		{"types beyond integers", bpe.with(meta{keyTypes: slices.Repeat([]uint64{math.MaxUint64}, len(bpe[keyList].([]string)))}), ErrInvalid},
		{"no token that is text", bpe.with(meta{keyTypes: slices.Repeat([]int32{3}, len(bpe[keyList].([]string)))}), ErrInvalid},
		{"an empty list of merges", bpe.with(meta{keyMerge: []string{}}), nil},
		{"few types", bpe.with(meta{keyTypes: long}), ErrInvalid},
		{"few scores", spm.with(meta{keyScore: []float32{1}}), ErrInvalid},
		{"scores that no path has", tinyUGM().with(meta{keyScore: slices.Repeat([]float32{float32(math.Inf(-1))}, len(tinyUGM()[keyList].([]string)))}), ErrInvalid},
		{"BOS out of range", spm.with(meta{"tokenizer.ggml.bos_token_id": uint32(math.MaxUint32)}), nil},
		{"negative BOS", spm.with(meta{"tokenizer.ggml.bos_token_id": int32(-1)}), nil},
		{"BOS of a wrong type", spm.with(meta{"tokenizer.ggml.bos_token_id": "x"}), nil},
		{"short charsmap", tinyUGM().with(meta{keyChars: []uint8{1}}), ErrInvalid},
		{"charsmap shorter than it says", tinyUGM().with(meta{keyChars: []uint8{255, 255, 0, 0, 1}}), ErrInvalid},
		{"charsmap without end", tinyUGM().with(meta{keyChars: make([]uint8, maxCharsmap+1)}), ErrInvalid},
		{"charsmap of a wrong type", tinyUGM().with(meta{keyChars: "x"}), ErrInvalid},
	} {
		tok, err := New(c.m.kv(t))
		switch {
		case !errors.Is(err, c.want):
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		case c.want == nil && len(tok.Notices()) == 0:
			t.Errorf("%s: no notice", c.name)
		}
	}
	_, err := New(bpe.with(meta{keyPre: "qwen99"}).kv(t))
	if !strings.Contains(err.Error(), `"qwen99"`) || !strings.Contains(err.Error(), "qwen2") {
		t.Errorf("the error does not say what is known: %v", err)
	}
}

func TestOutOfRange(t *testing.T) {
	tok := tinyBPE().new(t)
	for _, id := range []llm.Token{None, math.MinInt32, llm.Token(tok.VocabSize()), math.MaxInt32} {
		if got := tok.Decode([]llm.Token{id}, true); len(got) != 0 {
			t.Errorf("token %d decoded to %q", id, got)
		}
		if tok.Piece(id) != nil || tok.Text(id) != "" || tok.Score(id) != 0 || tok.IsControl(id) || tok.IsEOG(id) {
			t.Errorf("token %d has properties", id)
		}
	}
}

// TestDecoder feeds texts one byte at a time, each as a token of tinySPM.
func TestDecoder(t *testing.T) {
	tok := tinySPM().new(t)
	for in, want := range map[string]string{
		"plain":                "plain",
		"é世🙂":                  "é世🙂",
		"\xff":                 "\uFFFD",
		"\xe4\xbd":             "\uFFFD",             // one for an incomplete code point
		"\xe4\xbda":            "\uFFFDa",            // also in the middle of a text
		"\xf0\x9f\x99":         "\uFFFD",             //
		"\xf0\x9f\x41":         "\uFFFDA",            //
		"\x80\x80":             "\uFFFD\uFFFD",       // one for each byte that does not start a code point
		"\xed\xa0\x80":         "\uFFFD\uFFFD\uFFFD", // a surrogate
		"\xc0\xaf":             "\uFFFD\uFFFD",       // overlong form
		"\xf5\x80":             "\uFFFD\uFFFD",       //
		"\xc3\xc3\xa9":         "\uFFFDé",            //
		"\xe2\x82\xe2\x82\xac": "\uFFFD€",            //
		"a\x00b":               "a\x00b",             //
	} {
		d := tok.NewDecoder(false)
		var got []byte
		for i := range len(in) {
			got = d.Append(got, llm.Token(3+int(in[i])))
			if !utf8.Valid(got) {
				t.Errorf("%q: invalid text %q after %d bytes", in, got, i+1)
			}
			if d.Held() > 3 {
				t.Errorf("%q: %d bytes held back", in, d.Held())
			}
		}
		if got = d.Flush(got); string(got) != want || d.Held() != 0 {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	d := tok.NewDecoder(false)
	if got := d.Append(nil, 3+0xe4); len(got) != 0 {
		t.Errorf("the start of a code point gave %q", got)
	}
}

func TestRoles(t *testing.T) {
	smol := open(t, testmodel.SmolLM2(t))
	if got := texts(smol, smol.EOG()); !slices.Equal(got, []string{"<|endoftext|>", "<|im_end|>", "<reponame>"}) {
		t.Errorf("SmolLM2 ends with %q", got)
	}
	if got := smol.Text(smol.EOT()); got != "<|im_end|>" {
		t.Errorf("SmolLM2 ends a turn with %q", got)
	}
	gemma := open(t, sourceVocab(t, "gemma-4"))
	if got := gemma.Text(gemma.BOS()); got != "<bos>" || !gemma.AddBOS() || gemma.AddEOS() || gemma.Kind() != BPE || gemma.Pre() != "gemma4" {
		t.Errorf("Gemma 4: BOS %q, add %v %v, %v %s", got, gemma.AddBOS(), gemma.AddEOS(), gemma.Kind(), gemma.Pre())
	}
	coder := open(t, sourceVocab(t, "deepseek-coder"))
	f := coder.FIM()
	if got := texts(coder, []llm.Token{f.Prefix, f.Suffix, f.Middle}); !slices.Equal(got, []string{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}) || f.Pad != None {
		t.Errorf("DeepSeek Coder: %q, %+v", got, f)
	}
}

// TestEndsByFamily checks tokens that end a generation in one family but not in
// another.
func TestEndsByFamily(t *testing.T) {
	for _, c := range []struct {
		tokens []string
		eog    []string
	}{
		{[]string{"<|end|>", "<|eot_id|>"}, []string{"<|end|>", "<|eot_id|>"}},
		{[]string{"<|end|>", "<|return|>", "<|call|>", "<|channel|>"}, []string{"<|return|>", "<|call|>"}},
		{[]string{"<|end|>", "<|flush|>", "<|calls|>"}, []string{"<|flush|>", "<|calls|>"}},
		{[]string{"</s>", "x"}, []string{"</s>"}},
		{[]string{"</s>", "<|tool_response>"}, []string{"<|tool_response>"}},
	} {
		list := append([]string{"a"}, c.tokens...)
		tok := meta{keyModel: "gpt2", keyPre: "gpt-2", keyList: list, keyMerge: []string{}}.new(t)
		if got := texts(tok, tok.EOG()); !slices.Equal(got, c.eog) {
			t.Errorf("%q: %q end a generation, want %q", c.tokens, got, c.eog)
		}
		if id, ok := tok.Find("<|channel|>"); ok && tok.IsControl(id) {
			t.Error("the marks of channels are control tokens")
		}
	}
}

func TestMarkers(t *testing.T) {
	for s, want := range map[string]bool{
		"<|user|>": true, "<｜User｜>": true, "<|tool>": true, "<tool|>": true, "<start_of_turn>": true, "<tool_call>": true,
		"</think>": true, "<think>": true, "[INST]": true, "[/INST]": true, "[TOOL_CALLS]": true,
		"<b>": false, "</td>": false, "<h1>": false, "  ": false, "\n\n": false, "[1]": false, "[multimodal]": false, "õ": false, "<>": false, "": false,
	} {
		if isMarker(s) != want {
			t.Errorf("%q as a marker: %v", s, !want)
		}
	}
}

// TestAllocs checks that decoding a token and encoding into a buffer allocate
// nothing once the buffers have grown.
func TestAllocs(t *testing.T) {
	pieces := []Piece{{"<|im_start|>", true}, {"hello hello é\n\n aaaaaaaa", false}, {"<|im_end|>", true}}
	for name, m := range kinds() {
		tok := m.new(t)
		dst := make([]llm.Token, 0, 256)
		if n := testing.AllocsPerRun(100, func() { dst = tok.Encode(dst[:0], pieces, Options{AddSpecial: true}) }); n > 0 {
			t.Errorf("%s: %v allocations an encoding", name, n)
		}
		d := tok.NewDecoder(true)
		out := make([]byte, 0, 4096)
		n := testing.AllocsPerRun(100, func() {
			out = out[:0]
			for _, id := range dst {
				out = d.Append(out, id)
				tok.IsEOG(id)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations a decoding", name, n)
		}
	}
}

// TestConcurrent encodes in several goroutines, starting with the first use.
func TestConcurrent(t *testing.T) {
	tok := tinyBPE().new(t)
	want := tinyBPE().new(t).EncodeText("hello hello\n\n<|im_end|>", true, true)
	done := make(chan []llm.Token)
	for range 8 {
		go func() { done <- tok.EncodeText("hello hello\n\n<|im_end|>", true, true) }()
	}
	for range 8 {
		if got := <-done; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
