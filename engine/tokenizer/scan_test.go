package tokenizer

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
)

// cutWords returns the words into which passes cut a text.
func cutWords(passes []scan, text []byte) []string {
	if len(passes) == 0 {
		return []string{string(text)}
	}
	var words []string
	memo := 0
	for i := 0; i < len(text); {
		end := passes[0](classTable(), text, i, &memo)
		words = append(words, cutWords(passes[1:], text[i:end])...)
		i = end
	}
	return words
}

// TestWords compares with the words that llama.cpp finds.
func TestWords(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "words.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Texts   []string
		Lengths map[string][]string
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Texts) == 0 || len(golden.Lengths) == 0 {
		t.Fatal("no texts")
	}
	for name, all := range golden.Lengths {
		p, err := lookupPre(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range golden.Texts {
			var want []string
			rest := text
			for _, f := range strings.Fields(all[i]) {
				n, err := strconv.Atoi(f)
				if err != nil || n > len(rest) {
					t.Fatalf("%s, text %d: bad length %q", name, i, f)
				}
				want = append(want, rest[:n])
				rest = rest[n:]
			}
			if got := cutWords(p.scans, []byte(text)); !slices.Equal(got, want) {
				t.Errorf("%s:\n got %q\nwant %q", name, got, want)
			}
		}
	}
}

// The models' own patterns from their tokenizer.json files, with two changes. \b is
// written out, with marks as parts of words, and lists of characters contain no
// spaces, as in llama.cpp.
const (
	reGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	reShort  = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	reBlank  = `\s*[\r\n]+|\s+(?!\S)|\s+`
	reLlama3 = reShort + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + reBlank
	reQwen2  = reShort + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + reBlank
	reWord1  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	reWord2  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	reGPT4o  = reWord1 + reShort + `?|` + reWord2 + reShort + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + reBlank
	reMarks  = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|`
	reDeep3  = reMarks + ` ?[\p{P}\p{S}]+[\r\n]*|` + reBlank
	reBloom  = ` ?[^(\s|.,!?…。，、।۔،)]+`
	reHan    = `(?:(?!\s)[一-龥\u0800-一가-\ud7ff])+`
	reCJK    = `[一-龥\u3040-ゟ゠-ヿ]+`
	reUpper  = `(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])`
	reLower  = `(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])`
)

// patterns maps pre-tokenizers to the patterns of their passes.
var patterns = map[string][]string{
	"default": {`[\p{P}\$\+<=>\^~\|]+`, reGPT2, `\p{N}+`, `[0-9][0-9][0-9]`},
	"falcon":  {`[\p{P}\$\+<=>\^~\|` + "`" + `]+`, reGPT2, `[0-9][0-9][0-9]`},
	"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais exaone4" +
		" trillion granite-docling jina-v1-en jina-v2-code roberta-bpe": {reGPT2},
	"starcoder refact codeshell exaone minerva-7b mellum2 command-r smollm":                                               {`\p{N}`, reGPT2},
	"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5": {reLlama3},
	"jais-2": {reShort + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`},
	"minicpm5": {`\p{N}{1,3}`, reShort + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|` + reBlank},
	"qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2 stablelm2 megrez": {reQwen2},
	"bailingmoe bailingmoe2 llada-moe":                                                {`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`},
	"laguna":                                                                          {`[^\n]+|[\n]+`, reQwen2},
	"ufakzeka":                                                                        {`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + reBlank},
	"seed-coder":                                                                      {reShort + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|` + reBlank},
	"qwen35":                                                                          {reShort + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + reBlank},
	"exaone-moe":                                                                      {reShort + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`},

	"gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m": {reGPT4o},
	"tiny_aya cohere2moe": {`\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{Nd}\p{Pc}]))`, reGPT4o},
	"tekken":              {reWord1 + `|` + reWord2 + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + reBlank},
	"kimi-k2": {`[\p{Han}]+|[^\r\n\p{L}\p{N}]?` + reUpper + `*` + reLower + `+` + reShort + `?|[^\r\n\p{L}\p{N}]?` + reUpper + `+` + reLower + `*` + reShort +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + reBlank},
	"youtu": {
		`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|` + reCJK,
		reWord1 + reShort + `?|` + reWord2 + reShort + `?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + reBlank,
	},

	"deepseek-llm": {
		`[\r\n]`, `\s?` + reCased + `+`, `\s?[!-/:-~！-／：-～‘-‟、-。]+`, `\s+\z`, reHan, `\p{N}+`,
	},
	"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, reHan, `\p{N}`},
	"deepseek-v3 hunyuan-dense joyai-llm hy_v4": {`\p{N}{1,3}`, reCJK, reDeep3},
	"spark2_5": {`\p{N}{1,3}`, reCJK, reMarks + ` ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`, `\p{N}`},
	"afmoe": {
		`(?:(?<!\p{N})\p{N}{1,3}|\p{N}{3})(?=(?:\p{N}{3})*(?!\p{N}))`,
		`[一-鿿㐀-䶿\uf900-﫿\u3040-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-\ud7afᄀ-ᇿ]+`, reDeep3,
	},

	"bloom gpt3-finnish poro-chat": {reBloom},
	"viking":                       {reBloom, `\p{N}`},
	"superbpe":                     {`\p{N}+`, `(?=([0-9]{3})+(?![0-9]))`},
	"chameleon": {
		`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`,
		`[\p{P}!-/:-@\[-` + "`" + `{-~]`, reGPT2,
	},
	"gemma4 granite-embed-multi-311m mmbert sarvam-moe": {`[^\n]+|[\n]+`},
	"whitespace": {`\S+`},
}

// reCased is DeepSeek's list of letters with case.
const reCased = `[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽ\u1c90-\u1cba\u1cbd-\u1cbfᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]`

// atoms are the building blocks of random texts: some for each class that a pattern
// distinguishes, and the borders between classes.
var atoms = []string{
	"a", "b", "Z", "É", "é", "ß", "ı", "İ", "ǅ", "ʰ", "ª", "Ж", "ё", "word", "HELLO", "iPhone", "Ა", "ა", "ꟊ", "ա", "ⴀ", "𐐀", "𝐀", "Ａ", "ａ", "Ω", "K",
	"'s", "'S", "'re", "'LL", "'vE", "'m", "'D", "'t", "'", "’s", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u3000", "\u0085", "\u2028",
	"1", "12", "123", "1234567", "²", "½", "Ⅷ", "٣", "०", "\u0301", "\u093f", "हि", "中", "文", "々", "〇", "⺀", "日本", "カ", "ｶ", "ひ", "한", "ㄱ", "ㄅ", "เ", "ก็", "က", "豈",
	"。", "，", "！", "“", "…", "—", "!", "?", ".", ",", "...", "/", "//", "\\", "$", "+", "<", ">", "=", "^", "|", "~", "`", "_", "(", ")", "[", "]", "{", "}", "#", "%", "&", "*", "-", ":", ";", "@", "\"",
	"€", "→", "☃", "🙂", "\u200d", "\ufe0f", "\x00", "\x01", "\x1c", "\x7f", "\u0378", "\ue000", "～", "ﾟ", "ع", "،", "।", "۔", "‿",
	"<sentinel:12>", "<sentinel:", "IMGIMGABZ", "IMGIMG", "IMG",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(14) {
		b.WriteString(strings.Repeat(atoms[r.IntN(len(atoms))], 1+r.IntN(3)*r.IntN(2)*r.IntN(3)))
	}
	return b.String()
}

// TestScansMatchPatterns compares every pre-tokenizer with its patterns.
func TestScansMatchPatterns(t *testing.T) {
	left := maps.Clone(pres)
	for names, list := range patterns {
		var passes []*regexp2.Regexp
		for _, re := range list {
			passes = append(passes, regexp2.MustCompile(re))
		}
		r := rand.New(rand.NewPCG(1, 2))
		texts := make([]string, 1500)
		want := make([][]string, len(texts))
		for i := range texts {
			texts[i] = randomText(r)
			want[i] = matchWords(t, passes, texts[i])
		}
		for _, name := range strings.Fields(names) {
			p, ok := pres[name]
			if !ok {
				continue
			}
			delete(left, name)
			bad := 0
			for i, text := range texts {
				if got := cutWords(p.scans, []byte(text)); !slices.Equal(got, want[i]) {
					if bad++; bad <= 3 {
						t.Errorf("%s: %q\n got %q\nwant %q", name, text, got, want[i])
					}
				}
			}
		}
	}
	for name := range left {
		t.Errorf("pre-tokenizer %q has no pattern to compare with", name)
	}
}

// matchWords cuts a text by patterns into matches and the text between them. An
// empty match also cuts.
func matchWords(t *testing.T, passes []*regexp2.Regexp, text string) []string {
	t.Helper()
	if len(passes) == 0 {
		return []string{text}
	}
	runes := []rune(text)
	cuts := []int{0, len(runes)}
	m, err := passes[0].FindRunesMatch(runes)
	for ; m != nil && err == nil; m, err = passes[0].FindNextMatch(m) {
		cuts = append(cuts, m.RuneIndex, m.RuneIndex+m.RuneLength)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var words []string
	for i := 1; i < len(cuts); i++ {
		words = append(words, matchWords(t, passes[1:], string(runes[cuts[i-1]:cuts[i]]))...)
	}
	return words
}

// TestRanges checks that the sets are as ranges.has requires.
func TestRanges(t *testing.T) {
	for name, set := range map[string]ranges{
		"ideographs": ideographs, "hanOrHangul": hanOrHangul, "hangul": hangul, "bopomofo": bopomofo,
		"wideMarks": wideMarks, "chinese": chinese, "asian": asian, "uncased": uncased, "ideographsOfBERT": ideographsOfBERT,
	} {
		last := rune(-1)
		for _, p := range set {
			if p[0] <= last || p[1] < p[0] {
				t.Errorf("%s: %x after %x", name, p, last)
			}
			last = p[1]
		}
	}
}

// TestPasses checks that no registered pre-tokenizer has more passes than there is
// room for memos.
func TestPasses(t *testing.T) {
	for name, p := range pres {
		if n := len(p.scans); n == 0 || n > maxPasses {
			t.Errorf("%s has %d passes, allowed are 1 to %d", name, n, maxPasses)
		}
	}
}
