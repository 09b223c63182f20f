package prefix

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"godwit/engine/llm"
)

// PageTokens is the number of tokens of a page.
const PageTokens = 64

// MaxParts is the most parts of a page.
const MaxParts = 16

// Key names a page, a point or the beginning of a chain.
type Key [sha256.Size]byte

// The kinds of keys, which are hashed apart from each other.
const (
	rootKey byte = iota + 1
	pageKey
	pointKey
	chunkName
	recordSum
	manifestSum
)

// keyed is the hash of a kind and some bytes with the store's secret.
func keyed(secret []byte, kind byte, parts ...[]byte) (k Key) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte{kind})
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(k[:0])
	return k
}

// Root is the key before the first page of a text. Its arguments, of any length, cover
// everything that decides what the bytes of the pages mean.
func (s *Store) Root(context ...[]byte) Key {
	var all []byte
	for _, c := range context {
		all = binary.LittleEndian.AppendUint64(all, uint64(len(c)))
		all = append(all, c...)
	}
	return keyed(s.secret[:], rootKey, all)
}

// Next is the key of a page of tokens behind another page or the root.
func (s *Store) Next(parent Key, page []llm.Token) Key {
	return keyed(s.secret[:], pageKey, parent[:], tokenBytes(page))
}

// PointKey is the key of a point that is tail tokens behind a page.
func (s *Store) PointKey(parent Key, tail []llm.Token) Key {
	return keyed(s.secret[:], pointKey, parent[:], tokenBytes(tail))
}

// tokenBytes is the ids as bytes.
func tokenBytes(tokens []llm.Token) []byte {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return b
}

// tokensOf is the inverse of tokenBytes.
func tokensOf(b []byte) []llm.Token {
	tokens := make([]llm.Token, len(b)/4)
	for i := range tokens {
		tokens[i] = llm.Token(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return tokens
}
