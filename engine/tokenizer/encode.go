package tokenizer

import (
	"hash/maphash"
	"math"

	"godwit/engine/llm"
)

// Piece is a part of a prompt.
type Piece struct {
	Text    string
	Trusted bool // written by the template, not by a person: special tokens count
}

// Options say what Encode adds and parses.
type Options struct {
	AddSpecial   bool // BOS, EOS and the like, as the model wants them
	AddBOS       bool // only what goes in front of text, and not a second time
	ParseSpecial bool // control tokens in trusted pieces are tokens, not text
	Joined       bool // text stands before the pieces, so no dummy space goes in front of them
}

// scratch are the buffers of one encoding.
type scratch struct {
	text  []byte
	parts []trust
	cut   partition

	escaped []byte // the text of a span with spaces escaped
	norm    []byte // the same, normalised
	word    []byte // a word in the vocabulary's alphabet
	merger  merger
	memo    [maxPasses]int // BPE: of each pass
	best    []arc          // UGM
}

// keep is the most bytes or entries that a pooled buffer may have.
const keep = 1 << 20

func (s *scratch) large() bool {
	return max(cap(s.text), cap(s.escaped), cap(s.norm), cap(s.word), cap(s.parts), cap(s.best),
		cap(s.merger.syms), cap(s.merger.heap), cap(s.cut.found), cap(s.cut.spans)) > keep
}

// A model is the algorithm of one kind of vocabulary.
type model interface {
	// append adds the tokens of text. first says that a special token, or
	// nothing, precedes it.
	append(dst []llm.Token, s *scratch, text []byte, first bool) []llm.Token
}

func (t *Tokenizer) newModel() model {
	switch t.kind {
	case WPM:
		return newWordPiece(t)
	case UGM:
		return newUnigram(t)
	case RWKV:
		return newLongest(t)
	case BPE:
		return &bpe{t: t, vocab: t.vocab(), classes: classTable()}
	}
	return &spm{t: t, vocab: t.vocab()}
}

// EncodeText returns the tokens of a text. addSpecial adds BOS, EOS and the
// like as the model wants them; parseSpecial takes control tokens in the text
// for what they are. Text need not be valid UTF-8: byte-level vocabularies get
// U+FFFD for each byte that is out of place, those with byte tokens the bytes.
func (t *Tokenizer) EncodeText(text string, addSpecial, parseSpecial bool) []llm.Token {
	s := t.pool.Get().(*scratch)
	s.text = append(s.text[:0], text...)
	s.parts = append(s.parts[:0], trust{end: len(text), trusted: parseSpecial})
	dst := t.encode(make([]llm.Token, 0, len(text)/4+2), s, Options{AddSpecial: addSpecial})
	t.release(s)
	return dst
}

// Encode appends the tokens of a prompt. The pieces are one text: a word may
// continue from one into the next, so a template may end a piece where it likes.
// But a special token has to lie within trusted text, and markers of the
// prompt format that the file wrongly lists as text have to as well.
func (t *Tokenizer) Encode(dst []llm.Token, pieces []Piece, o Options) []llm.Token {
	s := t.pool.Get().(*scratch)
	s.text, s.parts = s.text[:0], s.parts[:0]
	for _, p := range pieces {
		if p.Text == "" {
			continue
		}
		s.text = append(s.text, p.Text...)
		part := trust{end: len(s.text), trusted: p.Trusted && o.ParseSpecial, strict: true}
		if n := len(s.parts); n > 0 && s.parts[n-1].trusted == part.trusted {
			s.parts[n-1].end = part.end
		} else {
			s.parts = append(s.parts, part)
		}
	}
	dst = t.encode(dst, s, o)
	t.release(s)
	return dst
}

func (t *Tokenizer) release(s *scratch) {
	if !s.large() {
		t.pool.Put(s)
	}
}

// encode appends the tokens of s.text, whose parts are s.parts.
func (t *Tokenizer) encode(dst []llm.Token, s *scratch, o Options) []llm.Token {
	spans := s.cut.cut(t.matcher(), s.text, s.parts)
	bos := t.ids.bos
	twice := o.AddBOS && len(spans) > 0 && spans[0].token == bos
	if bos != None && (o.AddSpecial || o.AddBOS) && (t.addBOS || t.kind == WPM) && t.kind != RWKV && !twice {
		dst = append(dst, bos)
	}
	m := t.model()
	first := !o.Joined
	for _, sp := range spans {
		if sp.token == None {
			dst = m.append(dst, s, s.text[sp.start:sp.end], first)
		} else {
			dst = append(dst, sp.token)
		}
		first = sp.token != None
	}
	if o.AddSpecial {
		dst = t.appendEnd(dst)
	}
	return dst
}

// appendEnd adds what the model wants after a text.
func (t *Tokenizer) appendEnd(dst []llm.Token) []llm.Token {
	end := None
	switch {
	case t.kind == WPM:
		end = t.ids.sep
	case t.addEOS && t.kind != RWKV:
		end = t.ids.eos
	}
	if end != None {
		dst = append(dst, end)
	}
	return dst
}

// vocab are the indexes that encoding needs.
type vocab struct {
	seed   maphash.Seed
	words  *words
	merges *merges // nil where pairs merge by score
	scores []float32

	bytes [256]llm.Token // for a byte that no token has, None where it is dropped
	tight *[256]bool     // see merges
	ascii [128]uint64    // hashes of GPT-2's alphabet: of its ASCII characters
	wide  [4][64]uint64  // and of the others, by lead byte modulo 4 and second byte
}

func (t *Tokenizer) newVocab() *vocab {
	v := &vocab{seed: t.seed, words: newWords(t.seed, t.text), scores: t.scores}
	switch t.kind {
	case BPE:
		lines, _ := t.kv.Strings(keyMerge)
		v.merges = newMerges(t.seed, lines)
		v.tight = &v.merges.tight
		v.hashAlphabet()
	case SPM:
		v.tight = crossings(t.text)
	}
	for b := range v.bytes {
		v.bytes[b] = v.byteToken(t, byte(b))
	}
	return v
}

// byteToken finds the token for one byte of text that has no token.
func (v *vocab) byteToken(t *Tokenizer, b byte) llm.Token {
	const hex = "0123456789ABCDEF"
	if t.kind != BPE || t.pre.raw {
		if tok := v.words.lookup([]byte{'<', '0', 'x', hex[b>>4], hex[b&15], '>'}); tok != None || t.kind == BPE {
			return tok
		}
	}
	if tok := v.words.lookup([]byte{b}); tok != None || t.kind == BPE {
		return tok
	}
	return t.ids.unk
}

// appendToken adds the token with this text, else those of its bytes.
func (v *vocab) appendToken(dst []llm.Token, text []byte, hash uint64) []llm.Token {
	var tok llm.Token
	if v.merges != nil {
		tok = v.words.hashed(hash, text)
	} else {
		tok = v.words.lookup(text)
	}
	if tok != None {
		return append(dst, tok)
	}
	for _, b := range text {
		if tok := v.bytes[b]; tok != None {
			dst = append(dst, tok)
		}
	}
	return dst
}

// scoreRank turns a score into a rank: the higher, the earlier.
func (v *vocab) scoreRank(tok llm.Token) uint32 {
	if v.scores == nil {
		return 0
	}
	switch f := v.scores[tok]; {
	case f != f:
		return noRank - 1
	case f < 0:
		return math.Float32bits(f)
	case f > 0:
		return 1<<31 - 1 - math.Float32bits(f)
	}
	return 1<<31 - 1
}
