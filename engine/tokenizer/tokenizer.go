// Package tokenizer turns text into tokens and back, by the vocabulary that a
// GGUF file carries.
//
//	t, err := tokenizer.New(file.KV)
//	ids := t.EncodeText("Hello", true, false)
//	text := t.Decode(ids, false)
//
// Chat prompts go through Encode in pieces, of which only trusted ones may
// hold special tokens: what a person typed stays text, whatever it looks like.
// Generated tokens go through a Decoder, which holds back the bytes of a code
// point until it is whole.
//
// The kinds are byte-level and plain BPE, SentencePiece's merging by score and
// its unigram model, WordPiece, and RWKV's longest match. Ids are those that
// llama.cpp gives for the same file, invalid UTF-8 included; pre-tokenizers of
// the o200k family follow the models' own patterns instead, where llama.cpp
// simplifies them. Time is linear in the text, except for a logarithm in the
// length of a single word.
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

// None stands for a token that the vocabulary does not have.
const None llm.Token = -1

// escape is U+2581, which stands for a space in vocabularies of SentencePiece.
const escape = "\u2581"

// Kind is the algorithm of a vocabulary.
type Kind uint8

// The kinds of vocabularies.
const (
	SPM  Kind = iota // SentencePiece BPE: neighbours merge by the score of the result; bytes as a fallback
	BPE              // pairs merge by rank, inside the words that a pre-tokenizer cuts
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
	leftStrip  // takes the spaces before it
	rightStrip // takes the spaces after it

	special = unknown | control | userDefined // found in text before anything else
)

// Tokenizer is a vocabulary. It keeps strings of the file's metadata, so the
// file has to stay open as long as the tokenizer is in use. Its methods may be
// called from several goroutines.
type Tokenizer struct {
	kv      *gguf.Metadata
	kind    Kind
	pre     pre
	preName string

	text   []string // text of every token, as in the file
	attrs  []attr
	scores []float32 // nil: all 0

	ids      ids
	eog      map[llm.Token]bool
	suppress []llm.Token

	addBOS, addEOS, addSep bool
	addPrefix              bool // a space in front of text
	escaped                bool // a space is U+2581 in the vocabulary
	clean                  bool // Decode takes spaces before punctuation out
	mergeSpaces            bool // UGM: runs of spaces count as one
	lowercase, decompose   bool // WPM: small letters; letters without their accents
	dropMarks              bool // WPM: combining marks go
	dropSpaces             bool // BPE: words exclude spaces
	charsmap               []byte
	notices                []string

	seed    maphash.Seed
	vocab   func() *vocab   // built at the first encoding
	matcher func() *matcher // likewise
	model   func() model    // likewise
	pieces  func() *pieces  // built at the first Piece
	pool    sync.Pool       // values are *scratch
}

// ids are the tokens with a role, each None where the vocabulary has none.
type ids struct {
	bos, eos, eot, eom, unk, sep, pad, mask llm.Token
	fim                                     FIM
}

// FIM are the tokens of fill-in-the-middle prompts, each None where the
// vocabulary has none.
type FIM struct {
	Prefix, Suffix, Middle llm.Token
	Pad, Repo, Sep         llm.Token // filler; name of a repository; between files
}

// New reads a vocabulary from the metadata of a file. Metadata that
// contradicts itself is an error; special token ids out of range count as
// absent, which Notices tells.
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

// Kind is the algorithm of the vocabulary.
func (t *Tokenizer) Kind() Kind { return t.kind }

// Pre is the name of the pre-tokenizer of a BPE vocabulary, else "".
func (t *Tokenizer) Pre() string { return t.preName }

// Notices are sentences about metadata that New had to replace or ignore.
func (t *Tokenizer) Notices() []string { return slices.Clone(t.notices) }

// VocabSize is the number of tokens; ids go from 0 to VocabSize()-1.
func (t *Tokenizer) VocabSize() int { return len(t.text) }

// BOS is the token in front of a text.
func (t *Tokenizer) BOS() llm.Token { return t.ids.bos }

// EOS is the token after a text.
func (t *Tokenizer) EOS() llm.Token { return t.ids.eos }

// EOT is the token after a turn of a conversation.
func (t *Tokenizer) EOT() llm.Token { return t.ids.eot }

// EOM is the token after a message that waits for a tool's answer.
func (t *Tokenizer) EOM() llm.Token { return t.ids.eom }

// Unknown is the token for text that the vocabulary cannot express.
func (t *Tokenizer) Unknown() llm.Token { return t.ids.unk }

// Sep is the token between two texts.
func (t *Tokenizer) Sep() llm.Token { return t.ids.sep }

// Pad is the token that fills rows of a batch.
func (t *Tokenizer) Pad() llm.Token { return t.ids.pad }

// Mask is the token for text to be guessed.
func (t *Tokenizer) Mask() llm.Token { return t.ids.mask }

// FIM are the tokens of fill-in-the-middle prompts.
func (t *Tokenizer) FIM() FIM { return t.ids.fim }

// AddBOS reports whether the model wants BOS in front of a text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// AddEOS reports whether the model wants EOS after a text.
func (t *Tokenizer) AddEOS() bool { return t.addEOS }

// AddSep reports whether the model wants Sep between two texts.
func (t *Tokenizer) AddSep() bool { return t.addSep }

// IsEOG reports whether a token ends a generation.
func (t *Tokenizer) IsEOG(tok llm.Token) bool { return t.eog[tok] }

// EOG lists the tokens that end a generation, in rising order.
func (t *Tokenizer) EOG() []llm.Token {
	list := make([]llm.Token, 0, len(t.eog))
	for tok := range t.eog {
		list = append(list, tok)
	}
	slices.Sort(list)
	return list
}

// Suppress lists tokens that the model's authors want never to be generated.
func (t *Tokenizer) Suppress() []llm.Token { return slices.Clone(t.suppress) }

// IsControl reports whether a token is a mark of the prompt format, and no text.
func (t *Tokenizer) IsControl(tok llm.Token) bool { return t.attr(tok)&control != 0 }

// Find returns the token with this text as the vocabulary writes it, such as
// "<|im_end|>".
func (t *Tokenizer) Find(text string) (llm.Token, bool) {
	tok := t.vocab().words.lookup([]byte(text))
	return tok, tok != None
}

// Text is a token as the vocabulary writes it, "" for an id out of range.
func (t *Tokenizer) Text(tok llm.Token) string {
	if !t.valid(tok) {
		return ""
	}
	return strings.Clone(t.text[tok])
}

// Score is the score of a token of the kinds that have them, else 0.
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
