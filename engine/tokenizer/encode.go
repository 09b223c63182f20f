package tokenizer

import (
	"hash/maphash"
	"math"

	"godwit/engine/llm"
)

// Piece is a part of a prompt.
type Piece struct {
	Text    string
	Trusted bool // whether the template wrote the text and not a person, so that special tokens are recognised
}

// Options decides what Encode adds and recognises.
type Options struct {
	AddSpecial   bool // whether BOS, EOS and similar tokens are added, as the model requires
	AddBOS       bool // whether only the tokens at the start of a text are added, unless they are already there
	ParseSpecial bool // whether control tokens in trusted pieces are recognised
	Joined       bool // whether other text precedes the pieces, so that no leading space is added
}

// scratch holds the buffers of one encoding.
type scratch struct {
	text  []byte
	parts []trust
	cut   partition

	escaped []byte // text of a span with spaces escaped
	norm    []byte // escaped text after normalisation
	word    []byte // word in the vocabulary's alphabet
	merger  merger
	memo    [maxPasses]int // memo of each pass, for BPE
	best    []arc          // for UGM
}

// keep is the maximum size, in bytes or entries, of a buffer that is returned
// to the pool.
const keep = 1 << 20

func (s *scratch) large() bool {
	return max(cap(s.text), cap(s.escaped), cap(s.norm), cap(s.word), cap(s.parts), cap(s.best),
		cap(s.merger.syms), cap(s.merger.heap), cap(s.cut.found), cap(s.cut.spans)) > keep
}

// A model is the encoding algorithm of one kind of vocabulary.
type model interface {
	// append adds the tokens of text. first reports whether text is at the
	// start or follows a special token.
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

// EncodeText returns the tokens of a text. addSpecial adds BOS, EOS and similar
// tokens as the model requires. parseSpecial recognises control tokens in the text.
// The text may be invalid UTF-8. Then byte-level vocabularies encode U+FFFD for
// each invalid byte, and vocabularies with byte tokens encode the bytes themselves.
func (t *Tokenizer) EncodeText(text string, addSpecial, parseSpecial bool) []llm.Token {
	s := t.pool.Get().(*scratch)
	s.text = append(s.text[:0], text...)
	s.parts = append(s.parts[:0], trust{end: len(text), trusted: parseSpecial})
	dst := t.encode(make([]llm.Token, 0, len(text)/4+2), s, Options{AddSpecial: addSpecial})
	t.release(s)
	return dst
}

// Encode appends the tokens of a prompt. The pieces form one text. A word may
// continue from one piece into the next, so a template may split its text
// anywhere. A special token must be inside trusted text. So must a marker of
// the prompt format that a file wrongly declares as text.
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

// encode appends the tokens of s.text. s.parts describes which parts are trusted.
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

// appendEnd adds the tokens that the model requires after a text.
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

// vocab holds the indexes for encoding.
type vocab struct {
	seed   maphash.Seed
	words  *words
	merges *merges // nil if pairs merge by score
	scores []float32

	bytes [256]llm.Token // token for a byte that no token contains; None if the byte is dropped
	tight *[256]bool     // see merges
	ascii [128]uint64    // hashes of the ASCII characters of GPT-2's alphabet
	wide  [4][64]uint64  // hashes of the alphabet's other characters, by lead byte modulo 4 and second byte
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

// byteToken finds the token for a byte of text that no token contains.
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

// appendToken adds the token with this text, or the tokens of its bytes if
// there is no such token.
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

// scoreRank converts a score to a rank. A higher score gets a lower rank.
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
