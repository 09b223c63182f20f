package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"godwit/engine/gguf"
	"godwit/engine/llm"
)

// Classes of errors of New.
var (
	ErrNoVocab = errors.New("no vocabulary")
	ErrKind    = errors.New("unknown kind of vocabulary")
	ErrInvalid = errors.New("invalid vocabulary")
)

const (
	keyModel = "tokenizer.ggml.model"
	keyPre   = "tokenizer.ggml.pre"
	keyList  = "tokenizer.ggml.tokens"
	keyTypes = "tokenizer.ggml.token_type"
	keyScore = "tokenizer.ggml.scores"
	keyMerge = "tokenizer.ggml.merges"
	keyChars = "tokenizer.ggml.precompiled_charsmap"
	keyLower = "tokenizer.ggml.normalizer.lowercase"
	keyStrip = "tokenizer.ggml.normalizer.strip_accents"
	keyNever = "tokenizer.ggml.suppress_tokens"
)

// A loader reads metadata into a Tokenizer.
type loader struct {
	t     *Tokenizer
	kv    *gguf.Metadata
	model string
}

func (l *loader) load() error {
	name, err := l.text(keyModel)
	if err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("%w: the file has no %s", ErrNoVocab, keyModel)
	}
	l.model = name
	for _, step := range []func() error{l.kind, l.merges, l.tokens, l.types, l.scores, l.charsmap} {
		if err := step(); err != nil {
			return err
		}
	}
	l.flags()
	l.ids()
	l.special()
	return nil
}

// text returns an optional string.
func (l *loader) text(key string) (string, error) {
	s, ok := l.kv.String(key)
	if !ok && l.kv.Has(key) {
		return "", fmt.Errorf("%w: %s is not a string", ErrInvalid, key)
	}
	return s, nil
}

func (l *loader) notice(format string, args ...any) {
	l.t.notices = append(l.t.notices, fmt.Sprintf(format, args...))
}

// kind sets the defaults of a kind of vocabulary for keys that the file does not
// have.
func (l *loader) kind() error {
	t := l.t
	none := ids{None, None, None, None, None, None, None, None, FIM{None, None, None, None, None, None}}
	t.ids, t.escaped = none, true
	switch l.model {
	case "llama":
		t.kind, t.addPrefix, t.addBOS = SPM, true, true
		t.ids.bos, t.ids.eos, t.ids.unk = 1, 2, 0
	case "bert":
		t.kind, t.clean, t.addBOS, t.addSep = WPM, true, true, true
		t.ids.bos, t.ids.unk, t.ids.sep, t.ids.pad, t.ids.mask = 101, 100, 102, 0, 103
	case "t5":
		t.kind, t.addEOS = UGM, true
		t.ids.eos, t.ids.unk, t.ids.pad = 1, 2, 0
	case "rwkv":
		t.kind = RWKV
	case "gpt2", "whitespace", "gemma4":
		t.kind = BPE
		return l.bpe()
	case "none", "no_vocab":
		return fmt.Errorf("%w: %s is %.80q", ErrNoVocab, keyModel, l.model)
	default:
		return fmt.Errorf("%w: %s is %.80q; known are bert, gemma4, gpt2, llama, rwkv, t5 and whitespace", ErrKind, keyModel, l.model)
	}
	return nil
}

// bpe sets the properties that follow from a pre-tokenizer.
func (l *loader) bpe() error {
	t := l.t
	name, err := l.text(keyPre)
	if err != nil {
		return err
	}
	switch {
	case l.model == "gemma4":
		name = "gemma4"
	case name == "":
		l.notice("the file does not name its pre-tokenizer (%s); the default may split words differently than the model expects", keyPre)
		name = "default"
	}
	p, err := lookupPre(name)
	if err != nil {
		return err
	}
	t.pre, t.preName = p, name
	t.escaped, t.clean, t.addBOS, t.addSep = p.escaped, p.clean, p.addBOS, p.addSep
	t.dropSpaces = l.model == "whitespace"
	if l.model != "gemma4" {
		t.ids.bos, t.ids.eos = 11, 11
	}
	if p.noBOS {
		t.ids.bos = None
	}
	return nil
}

// merges checks that there are pairs. They are parsed at the first encoding.
// Package gguf has already checked the element types of this list and of the
// three below.
func (l *loader) merges() error {
	v, ok := l.kv.Value(keyMerge)
	switch {
	case l.t.kind != BPE || l.t.preName == "kimi-k2":
	case !ok:
		return fmt.Errorf("%w: a vocabulary of kind %q needs %s", ErrInvalid, l.model, keyMerge)
	case v.Len() > maxTokens:
		return fmt.Errorf("%w: %s has %d entries, at most %d are allowed", ErrInvalid, keyMerge, v.Len(), maxTokens)
	case v.Len() == 0:
		l.notice("%s is empty: text becomes single bytes", keyMerge)
	}
	return nil
}

// Limits of a vocabulary. The indexes that find tokens take up to 70 times the
// tokens' memory.
const (
	maxToken    = 1 << 20 // maximum bytes of a token
	maxText     = 1 << 25 // maximum bytes of all tokens; the largest known vocabulary has 3 MB
	maxTokens   = 1 << 22 // maximum number of tokens, and of merges; the largest known vocabularies have 262,144 tokens and twice as many merges
	maxCharsmap = 1 << 24 // maximum bytes of a character map; T5's has 0.3 MB
)

func (l *loader) tokens() error {
	v, ok := l.kv.Value(keyList)
	if !ok {
		return fmt.Errorf("%w: the file has no %s", ErrNoVocab, keyList)
	}
	if n := v.Len(); n == 0 || n > maxTokens {
		return fmt.Errorf("%w: %s has %d entries, 1 to %d are allowed", ErrInvalid, keyList, n, maxTokens)
	}
	list, _ := v.Strings() // package gguf has checked its type
	text := 0
	for i, s := range list {
		text += len(s)
		switch {
		case len(s) > maxToken:
			return fmt.Errorf("%w: token %d of %s has %d bytes, at most %d are allowed", ErrInvalid, i, keyList, len(s), maxToken)
		case text > maxText:
			return fmt.Errorf("%w: the tokens of %s up to %d take %d bytes, at most %d are allowed", ErrInvalid, keyList, i, text, maxText)
		case s == "":
			list[i] = fmt.Sprintf("[EMPTY_%d]", i)
		}
	}
	l.t.text = list
	return nil
}

func (l *loader) types() error {
	n := len(l.t.text)
	l.t.attrs = make([]attr, n)
	v, ok := l.kv.Value(keyTypes)
	if !ok {
		for i := range l.t.attrs {
			l.t.attrs[i] = normal
		}
		return nil
	}
	if v.Len() < n {
		return fmt.Errorf("%w: %s has %d entries for %d tokens", ErrInvalid, keyTypes, v.Len(), n)
	}
	list, ok := v.First(n).Ints()
	if !ok {
		return fmt.Errorf("%w: %s has values beyond %d", ErrInvalid, keyTypes, math.MaxInt64)
	}
	kinds := [...]attr{1: normal, 2: unknown, 3: control, 4: userDefined, 5: unused, 6: byteToken}
	shown := false
	for i, v := range list {
		if v >= 0 && v < int64(len(kinds)) {
			l.t.attrs[i] = kinds[v]
		}
		shown = shown || l.t.attrs[i]&(normal|userDefined|byteToken) != 0
	}
	if !shown {
		return fmt.Errorf("%w: %s marks no token as text", ErrInvalid, keyTypes)
	}
	return nil
}

func (l *loader) scores() error {
	n := len(l.t.text)
	v, ok := l.kv.Value(keyScore)
	if ok && v.Len() < n {
		return fmt.Errorf("%w: %s has %d entries for %d tokens", ErrInvalid, keyScore, v.Len(), n)
	}
	l.t.scores, _ = v.First(n).Floats()
	if l.t.kind != UGM {
		return nil // other kinds of vocabularies only compare scores
	}
	for i, x := range l.t.scores {
		if x-x != 0 {
			return fmt.Errorf("%w: the score of token %d in %s is %g", ErrInvalid, i, keyScore, x)
		}
	}
	return nil
}

func (l *loader) charsmap() error {
	if l.t.kind != UGM || !l.kv.Has(keyChars) {
		return nil
	}
	v, _ := l.kv.Value(keyChars)
	if v.Len() > maxCharsmap {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrInvalid, keyChars, v.Len(), maxCharsmap)
	}
	list, ok := v.Ints()
	if !ok {
		return fmt.Errorf("%w: %s is not an array of bytes", ErrInvalid, keyChars)
	}
	l.t.charsmap = make([]byte, len(list))
	for i, v := range list {
		if v < math.MinInt8 || v > math.MaxUint8 {
			return fmt.Errorf("%w: %s has the value %d, which is not a byte", ErrInvalid, keyChars, v)
		}
		l.t.charsmap[i] = byte(v)
	}
	if _, err := newCharsmap(l.t.charsmap); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, keyChars, err)
	}
	return nil
}

// flags replaces the defaults of the kind with the flags in the file.
func (l *loader) flags() {
	t := l.t
	set := func(key string, to ...*bool) {
		v, ok := l.kv.Bool(key)
		if !ok && l.kv.Has(key) {
			l.notice("%s is not a boolean; it is ignored", key)
		}
		for i := range to {
			if ok {
				*to[i] = v
			}
		}
	}
	set("tokenizer.ggml.add_bos_token", &t.addBOS)
	set("tokenizer.ggml.add_eos_token", &t.addEOS)
	set("tokenizer.ggml.add_sep_token", &t.addSep)
	set("tokenizer.ggml.add_space_prefix", &t.addPrefix)
	set("tokenizer.ggml.remove_extra_whitespaces", &t.mergeSpaces)
	if t.pre.forceBOS && !t.addBOS {
		l.notice("the file disables the BOS token, which %s models need; it is added", t.preName)
		t.addBOS = true
	}

	// Files without these keys expect letters without accents, and keep
	// combining marks.
	t.lowercase = t.kind == WPM
	set(keyLower, &t.lowercase)
	t.decompose = t.lowercase
	set(keyStrip, &t.decompose, &t.dropMarks)
	v, _ := l.kv.Value(keyNever)
	never, _ := v.First(len(t.text)).Ints()
	for _, id := range never {
		if id >= 0 && id < int64(len(t.text)) {
			t.suppress = append(t.suppress, llm.Token(id))
		}
	}
}

// ids reads the special tokens. An id that is out of range is ignored.
func (l *loader) ids() {
	t := &l.t.ids
	for _, role := range []struct {
		key string
		id  *llm.Token
	}{
		{"bos_token_id", &t.bos},
		{"eos_token_id", &t.eos},
		{"eot_token_id", &t.eot},
		{"eom_token_id", &t.eom},
		{"unknown_token_id", &t.unk},
		{"seperator_token_id", &t.sep},
		{"padding_token_id", &t.pad},
		{"mask_token_id", &t.mask},
		{"fim_pre_token_id", &t.fim.Prefix},
		{"fim_suf_token_id", &t.fim.Suffix},
		{"fim_mid_token_id", &t.fim.Middle},
		{"fim_pad_token_id", &t.fim.Pad},
		{"fim_rep_token_id", &t.fim.Repo},
		{"fim_sep_token_id", &t.fim.Sep},
		{"prefix_token_id", &t.fim.Prefix},
		{"suffix_token_id", &t.fim.Suffix},
		{"middle_token_id", &t.fim.Middle},
	} {
		if !l.t.valid(*role.id) {
			*role.id = None
		}
		key := "tokenizer.ggml." + role.key
		if !l.kv.Has(key) {
			continue
		}
		id, ok := l.kv.Uint(key)
		if !ok || id >= uint64(len(l.t.text)) {
			l.notice("%s is not one of the %d tokens; it is ignored", key, len(l.t.text))
			continue
		}
		*role.id = llm.Token(id)
	}
}

// modelName returns general.name in lower case. For two families of files, only
// the name shows which tokens remove adjacent spaces.
func (l *loader) modelName() string {
	name, _ := l.kv.String("general.name")
	return strings.ToLower(name)
}
