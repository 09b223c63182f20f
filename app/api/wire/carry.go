package wire

import (
	"encoding/base64"
	"hash/crc32"
	"strings"
)

// carried is the prefix of a text from Carry.
const carried = "godwit1."

// Carry packs reasoning into an opaque field that the client returns in the
// next turn. The field is the signature of a thinking block, or the encrypted
// content of a reasoning item. The text is not secret, but the client asked not
// to see it.
func Carry(text string) string {
	if text == "" {
		return ""
	}
	b := append([]byte(text), 0, 0, 0, 0)
	sum := crc32.ChecksumIEEE(b[:len(text)])
	for i := range 4 {
		b[len(text)+i] = byte(sum >> (8 * i))
	}
	return carried + base64.RawURLEncoding.EncodeToString(b)
}

// Carried unpacks a text from Carry. It returns "" for text from another server.
func Carried(field string) string {
	rest, ok := strings.CutPrefix(field, carried)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	n := len(b) - 4
	if !ok || err != nil || n < 0 {
		return ""
	}
	sum := crc32.ChecksumIEEE(b[:n])
	for i := range 4 {
		if b[n+i] != byte(sum>>(8*i)) {
			return ""
		}
	}
	return string(b[:n])
}
