package tokenizer

import (
	"hash/maphash"
	"unicode/utf8"
)

// GPT-2 writes every byte as a printable character. A byte that is printable in
// Latin-1 stands for itself. The other bytes are assigned U+0100, U+0101, … in
// order. Source: bytes_to_unicode in encoder.py of OpenAI's gpt-2.
var (
	byteRunes = func() (to [256]rune) {
		next := rune(0x100)
		for b := range to {
			if to[b] = rune(b); b < 0x21 || b > 0x7e && b < 0xa1 || b == 0xad {
				to[b] = next
				next++
			}
		}
		return to
	}()
	// runeBytes maps characters back to bytes, and to -1 if a character does not
	// stand for a byte.
	runeBytes = func() (to [0x180]int16) {
		for i := range to {
			to[i] = -1
		}
		for b, r := range byteRunes {
			to[r] = int16(b)
		}
		return to
	}()
)

// appendAlphabet appends text written in GPT-2's alphabet.
func appendAlphabet(dst, text []byte) []byte {
	for _, b := range text {
		if r := byteRunes[b]; r < 0x80 {
			dst = append(dst, byte(r))
		} else {
			dst = append(dst, 0xc0|byte(r>>6), 0x80|byte(r)&0x3f)
		}
	}
	return dst
}

// byteOf returns the byte that a character of GPT-2's alphabet stands for.
func byteOf(r rune) (byte, bool) {
	if r < 0 || int(r) >= len(runeBytes) || runeBytes[r] < 0 {
		return 0, false
	}
	return byte(runeBytes[r]), true
}

// hashAlphabet computes the hashes of the alphabet's characters.
func (v *vocab) hashAlphabet() {
	for _, r := range byteRunes {
		var buf [utf8.UTFMax]byte
		n := utf8.EncodeRune(buf[:], r)
		h := maphash.Bytes(v.seed, buf[:n])
		if n == 1 {
			v.ascii[r] = h
		} else {
			v.wide[buf[0]&3][buf[1]&0x3f] = h
		}
	}
}
