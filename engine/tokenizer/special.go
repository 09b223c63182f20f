package tokenizer

import (
	"strings"

	"godwit/engine/llm"
)

// Files rarely say which tokens end a turn or surround a fill-in-the-middle prompt,
// and some files give these tokens a wrong type. As in llama.cpp, they are
// recognised by their text. If several candidates exist, the first one in the list
// is used.
var (
	turnEnds = []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
		"<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
	}
	messageEnds = []string{"<|eom_id|>"}
	fimPrefixes = []string{
		"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
		"<|code_prefix|>", "<|prefix|>",
	}
	fimSuffixes = []string{
		"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
		"<|code_suffix|>", "<|suffix|>",
	}
	fimMiddles = []string{
		"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
		"<|code_middle|>", "<|middle|>",
	}
	fimPads  = []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}
	fimRepos = []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}
	fimSeps  = []string{"<|file_sep|>"}

	// generationEnds lists the tokens that end a generation in every vocabulary
	// that has them.
	generationEnds = []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
		"<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
		"<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
		"<｜end▁of▁sentence｜>", "[e~[",
	}
	// harmony lists the tokens that delimit the channels of gpt-oss. They are
	// control tokens, but they must appear in the decoded text.
	harmony = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}
	// exceptions lists families in which a token of generationEnds does not end
	// generation.
	exceptions = []string{"<|plamo:eos|>"}
)

// special finds special tokens that the file does not name and corrects wrong token
// types.
func (l *loader) special() {
	t := l.t
	found := l.named(turnEnds, messageEnds, fimPrefixes, fimSuffixes, fimMiddles, fimPads, fimRepos, fimSeps,
		generationEnds, harmony, exceptions)
	for _, role := range []struct {
		id    *llm.Token
		names []string
	}{
		{&t.ids.eot, turnEnds},
		{&t.ids.eom, messageEnds},
		{&t.ids.fim.Prefix, fimPrefixes},
		{&t.ids.fim.Suffix, fimSuffixes},
		{&t.ids.fim.Middle, fimMiddles},
		{&t.ids.fim.Pad, fimPads},
		{&t.ids.fim.Repo, fimRepos},
		{&t.ids.fim.Sep, fimSeps},
	} {
		for _, name := range role.names {
			if tok, ok := found[name]; ok && *role.id == None {
				*role.id = tok
				t.attrs[tok] |= control
			}
		}
	}
	l.ends(found)
	l.strips()
	if t.kind == UGM {
		for i, a := range t.attrs {
			if a&control != 0 && strings.Contains(t.text[i], "unused") {
				t.attrs[i] |= unused
			}
		}
	}
}

// named finds tokens by their texts in one pass. An index of all texts is built
// only at the first encoding.
func (l *loader) named(lists ...[]string) map[string]llm.Token {
	wanted := map[string]bool{}
	var first [256]bool
	for _, list := range lists {
		for _, name := range list {
			wanted[name] = true
			first[name[0]] = true
		}
	}
	found := map[string]llm.Token{}
	for i, s := range l.t.text {
		if first[s[0]] && wanted[s] {
			found[strings.Clone(s)] = llm.Token(i)
		}
	}
	return found
}

// ends collects the tokens that end a generation.
func (l *loader) ends(found map[string]llm.Token) {
	t := l.t
	t.eog = map[llm.Token]bool{}
	for _, name := range generationEnds {
		if tok, ok := found[name]; ok {
			t.eog[tok] = true
			t.attrs[tok] |= control
		}
	}
	for _, name := range harmony {
		if tok, ok := found[name]; ok {
			t.attrs[tok] = userDefined
		}
	}
	for _, tok := range []llm.Token{t.ids.fim.Pad, t.ids.fim.Repo, t.ids.fim.Sep, t.ids.eos, t.ids.eot, t.ids.eom} {
		if tok != None {
			t.eog[tok] = true
		}
	}
	ends := func(names ...string) bool {
		for _, name := range names {
			if tok, ok := found[name]; ok && t.eog[tok] {
				return true
			}
		}
		return false
	}
	// In gpt-oss and Solar Open, <|end|> ends only a message. Other tokens end the
	// turn.
	if tok, ok := found["<|end|>"]; ok && t.eog[tok] &&
		(ends("<|return|>") && ends("<|call|>", "<|calls|>") || ends("<|call|>", "<|calls|>") && ends("<|flush|>")) {
		delete(t.eog, tok)
		t.attrs[tok] = userDefined
	}
	// In Gemma 4 and PLaMo, </s> is ordinary markup.
	if tok, ok := found["</s>"]; ok && t.eog[tok] && ends("<|tool_response>", "<|plamo:eos|>") {
		delete(t.eog, tok)
		t.attrs[tok] = normal
	}
}

// strips sets which special tokens remove adjacent spaces. No metadata key has
// this information.
func (l *loader) strips() {
	t := l.t
	arch, _ := l.kv.String("general.architecture")
	any := func(s string, parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(s, p) {
				return true
			}
		}
		return false
	}
	pre, _ := l.kv.String(keyPre)
	switch name := l.modelName(); {
	case any(pre, "jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert"), any(arch, "nomic-bert-moe", "jina-bert-v3"):
		if tok, ok := l.named([]string{"<mask>"})["<mask>"]; ok {
			t.attrs[tok] |= leftStrip
		}
	case any(name, "phi-3", "phi3"):
		for i, a := range t.attrs {
			switch s := t.text[i]; {
			case s == "<unk>", s == "<s>", s == "<|endoftext|>":
			case s == "</s>", a&special != 0:
				t.attrs[i] |= rightStrip
			}
		}
	case any(name, "modern-bert"):
		if tok, ok := l.named([]string{"[MASK]"})["[MASK]"]; ok {
			t.attrs[tok] |= leftStrip
		}
	}
}

// isMarker reports whether the text of a user-defined token looks like a marker
// of a prompt format. Many files declare their markers as user-defined, so such
// tokens are not recognised in untrusted pieces. Other files declare HTML tags
// and runs of spaces as user-defined, which are ordinary text.
func isMarker(s string) bool {
	if len(s) < 3 {
		return false
	}
	body := s[1 : len(s)-1]
	switch {
	case s[0] == '<' && s[len(s)-1] == '>':
		for _, bar := range []string{"|", "｜"} {
			if strings.HasPrefix(body, bar) || strings.HasSuffix(body, bar) {
				return true
			}
		}
		return strings.Contains(body, "_") || strings.TrimPrefix(body, "/") == "think"
	case s[0] == '[' && s[len(s)-1] == ']':
		return strings.Trim(body, "/_ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	}
	return false
}
