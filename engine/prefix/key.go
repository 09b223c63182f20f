package prefix

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"godwit/engine/llm"
)

// PageTokens is the number of tokens of a page.
const PageTokens = 64

// MaxParts is the largest number of parts of a page.
const MaxParts = 16

// Key identifies a page, a point or the root of a chain.
type Key [sha256.Size]byte

// The kinds of keys. The kind is part of the hash.
const (
	rootKey byte = iota + 1
	pageKey
	pointKey
	chunkName
	recordSum
	manifestSum
	ownerTag
)

// keyed returns the keyed hash of a kind and some bytes, with the store's
// secret as the key.
func keyed(secret []byte, kind byte, parts ...[]byte) (k Key) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte{kind})
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(k[:0])
	return k
}

// Root returns the key before the first page of a text. The arguments, of any length, must cover
// everything that determines what the bytes of the pages mean.
func (s *Store) Root(context ...[]byte) Key {
	var all []byte
	for _, c := range context {
		all = binary.LittleEndian.AppendUint64(all, uint64(len(c)))
		all = append(all, c...)
	}
	return keyed(s.secret[:], rootKey, all)
}

// Next returns the key of a page of tokens after another page or the root.
func (s *Store) Next(parent Key, page []llm.Token) Key {
	return keyed(s.secret[:], pageKey, parent[:], tokenBytes(page))
}

// PointKey returns the key of the point that is tail tokens after a page.
func (s *Store) PointKey(parent Key, tail []llm.Token) Key {
	return keyed(s.secret[:], pointKey, parent[:], tokenBytes(tail))
}

// tokenBytes returns the ids as bytes.
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
