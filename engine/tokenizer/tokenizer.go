// Package tokenizer converts text to tokens and back with the vocabulary of a GGUF
// file.
//
//	t, err := tokenizer.New(file.KV)
//	ids := t.EncodeText("Hello", true, false)
//	text := t.Decode(ids, false)
//
// Chat prompts are encoded in pieces. Special tokens are recognised only in trusted
// pieces, so text that a person typed always stays plain text. Generated tokens
// pass through a Decoder, which holds back the bytes of a code point until it is
// complete.
//
// The kinds of vocabularies are byte-level and plain BPE, SentencePiece's BPE and
// unigram models, WordPiece, and RWKV's longest match. The ids are the same as
// llama.cpp's for the same file, including invalid UTF-8, except for pre-tokenizers
// of the o200k family. There llama.cpp simplifies the models' patterns, and this
// package uses the original ones. The time is linear in the text, apart from a
// logarithmic factor in the length of a single word.
package tokenizer

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"godwit/engine/gguf"
	"godwit/engine/llm"
)

// None means that the vocabulary does not have the token.
const None llm.Token = -1

// escape is U+2581, which represents a space in SentencePiece vocabularies.
const escape = "\u2581"

// Kind is the encoding algorithm of a vocabulary.
type Kind uint8

// The kinds of vocabularies.
const (
	SPM  Kind = iota // SentencePiece BPE: adjacent pieces merge by the score of the result, with byte tokens as a fallback
	BPE              // pairs merge by rank inside the words that a pre-tokenizer cuts
	WPM              // WordPiece
	UGM              // SentencePiece unigram
	RWKV             // longest match
)

// String returns the name of the kind, as in "BPE".
func (k Kind) String() string {
	return [...]string{"SPM", "BPE", "WPM", "UGM", "RWKV"}[k]
}

// attr is a set of properties of a token.
type attr uint8

const (
	unknown attr = 1 << iota
	unused
	normal
	control
	userDefined
	byteToken
	leftStrip  // removes spaces before the token
	rightStrip // removes spaces after the token

	special = unknown | control | userDefined // tokens that are recognised before the rest of the text is encoded
)

// Tokenizer is a vocabulary. It keeps strings of the file's metadata, so the file
// must stay open while the tokenizer is in use. Its methods are safe for concurrent
// use.
type Tokenizer struct {
	kv      *gguf.Metadata
	kind    Kind
	pre     pre
	preName string

	text   []string // text of every token, as in the file
	attrs  []attr
	scores []float32 // nil if all scores are 0

	ids      ids
	eog      map[llm.Token]bool
	suppress []llm.Token

	addBOS, addEOS, addSep bool
	addPrefix              bool // whether a space is added before text
	escaped                bool // whether the vocabulary writes a space as U+2581
	clean                  bool // whether Decode removes spaces before punctuation
	mergeSpaces            bool // UGM: whether runs of spaces become one space
	lowercase, decompose   bool // WPM: whether to convert to lower case, and whether to remove accents
	dropMarks              bool // WPM: whether to remove combining marks
	dropSpaces             bool // BPE: whether words never contain spaces
	charsmap               []byte
	notices                []string

	seed    maphash.Seed
	vocab   func() *vocab   // built at the first encoding
	matcher func() *matcher // also built at the first encoding
	model   func() model    // also built at the first encoding
	pieces  func() *pieces  // built at the first call of Piece
	pool    sync.Pool       // the values are of type *scratch
}

// ids holds the special tokens. A token is None if the vocabulary does not have
// it.
type ids struct {
	bos, eos, eot, eom, unk, sep, pad, mask llm.Token
	fim                                     FIM
}

// FIM holds the tokens of fill-in-the-middle prompts. A token is None if the
// vocabulary does not have it.
type FIM struct {
	Prefix, Suffix, Middle llm.Token
	Pad, Repo, Sep         llm.Token // padding; repository name; file separator
}

// New reads a vocabulary from a file's metadata. Contradictory metadata gives an
// error. Special token ids that are out of range count as absent and are reported
// in Notices.
func New(kv *gguf.Metadata) (*Tokenizer, error) {
	t := &Tokenizer{kv: kv, seed: maphash.MakeSeed()}
	l := loader{t: t, kv: kv}
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t.vocab = sync.OnceValue(t.newVocab)
	t.matcher = sync.OnceValue(t.newMatcher)
	t.model = sync.OnceValue(t.newModel)
	t.pieces = sync.OnceValue(t.newPieces)
	t.pool.New = func() any { return new(scratch) }
	return t, nil
}

// Kind returns the algorithm of the vocabulary.
func (t *Tokenizer) Kind() Kind { return t.kind }

// Pre returns the name of a BPE vocabulary's pre-tokenizer, or "" for other kinds.
func (t *Tokenizer) Pre() string { return t.preName }

// Notices describes the metadata that New replaced or ignored.
func (t *Tokenizer) Notices() []string { return slices.Clone(t.notices) }

// VocabSize returns the number of tokens. Ids range from 0 to VocabSize()-1.
func (t *Tokenizer) VocabSize() int { return len(t.text) }

// BOS returns the token before a text.
func (t *Tokenizer) BOS() llm.Token { return t.ids.bos }

// EOS returns the token after a text.
func (t *Tokenizer) EOS() llm.Token { return t.ids.eos }

// EOT returns the token after a turn of a conversation.
func (t *Tokenizer) EOT() llm.Token { return t.ids.eot }

// EOM returns the token after a message that waits for a tool's result.
func (t *Tokenizer) EOM() llm.Token { return t.ids.eom }

// Unknown returns the token for text that the vocabulary cannot express.
func (t *Tokenizer) Unknown() llm.Token { return t.ids.unk }

// Sep returns the token between two texts.
func (t *Tokenizer) Sep() llm.Token { return t.ids.sep }

// Pad returns the padding token.
func (t *Tokenizer) Pad() llm.Token { return t.ids.pad }

// Mask returns the token that stands for text that the model predicts.
func (t *Tokenizer) Mask() llm.Token { return t.ids.mask }

// FIM returns the tokens of fill-in-the-middle prompts.
func (t *Tokenizer) FIM() FIM { return t.ids.fim }

// AddBOS reports whether the model requires BOS before a text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// AddEOS reports whether the model requires EOS after a text.
func (t *Tokenizer) AddEOS() bool { return t.addEOS }

// AddSep reports whether the model requires Sep between two texts.
func (t *Tokenizer) AddSep() bool { return t.addSep }

// IsEOG reports whether a token ends a generation.
func (t *Tokenizer) IsEOG(tok llm.Token) bool { return t.eog[tok] }

// EOG lists the tokens that end a generation, in ascending order.
func (t *Tokenizer) EOG() []llm.Token {
	list := make([]llm.Token, 0, len(t.eog))
	for tok := range t.eog {
		list = append(list, tok)
	}
	slices.Sort(list)
	return list
}

// Suppress lists tokens that must never be generated according to the model's
// authors.
func (t *Tokenizer) Suppress() []llm.Token { return slices.Clone(t.suppress) }

// IsControl reports whether a token belongs to the prompt format and is not text.
func (t *Tokenizer) IsControl(tok llm.Token) bool { return t.attr(tok)&control != 0 }

// Find returns the token with the given text as the vocabulary writes it, such as
// "<|im_end|>".
func (t *Tokenizer) Find(text string) (llm.Token, bool) {
	tok := t.vocab().words.lookup([]byte(text))
	return tok, tok != None
}

// Text returns a token's text as the vocabulary writes it, or "" if the id is out
// of range.
func (t *Tokenizer) Text(tok llm.Token) string {
	if !t.valid(tok) {
		return ""
	}
	return strings.Clone(t.text[tok])
}

// Score returns the score of a token, or 0 in vocabularies without scores.
func (t *Tokenizer) Score(tok llm.Token) float32 {
	if t.scores == nil || !t.valid(tok) {
		return 0
	}
	return t.scores[tok]
}

func (t *Tokenizer) valid(tok llm.Token) bool { return tok >= 0 && int(tok) < len(t.text) }

func (t *Tokenizer) attr(tok llm.Token) attr {
	if !t.valid(tok) {
		return 0
	}
	return t.attrs[tok]
}
