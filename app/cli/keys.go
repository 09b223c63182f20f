package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Marks around pasted text, in terminals with bracketed paste.
const (
	pasteOn, pasteOff   = "\x1b[?2004h", "\x1b[?2004l"
	pasteStart, pasteOf = "\x1b[200~", "\x1b[201~"
)

// controls maps keys pressed with Ctrl to actions, as in a shell.
var controls = map[byte]action{
	1: keyHome, 2: keyLeft, 3: keyInterrupt, 4: keyEOF, 5: keyEnd, 6: keyRight, 8: keyRubOut, '\n': keyEnter, 11: keyRemoveAll, 12: keyClear,
	'\r': keyEnter, 14: keyDown, 16: keyUp, 20: keySwap, 21: keyRubOutAll, 23: keyRubOutWord, 26: keySuspend, 127: keyRubOut,
}

// sequences maps the bytes that terminals send after an escape character to
// keys.
var sequences = map[string]action{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "[H": keyHome, "[F": keyEnd,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[4~": keyEnd, "[7~": keyHome, "[8~": keyEnd, "[3~": keyRemove,
	"[1;5C": keyWordRight, "[1;5D": keyWordLeft, "[1;3C": keyWordRight, "[1;3D": keyWordLeft, "[3;5~": keyRemoveWord, "[3;3~": keyRemoveWord,
	"b": keyWordLeft, "f": keyWordRight, "d": keyRemoveWord, "\x7f": keyRubOutWord, "\b": keyRubOutWord,
}

// key is one key, or a complete text.
type key struct {
	do   action
	text string // text of keyText
	cell *cell  // pasted text of keyText, shown as one placeholder; used instead of text
}

// keyboard decodes typed bytes into keys.
type keyboard struct {
	in     []byte // bytes that are not decoded yet
	pastes int
}

// next returns the next key. It reports false if it needs more input.
func (k *keyboard) next() (key, bool) {
	for len(k.in) > 0 {
		switch c := k.in[0]; {
		case c == 0x1b && bytes.HasPrefix(k.in, []byte(pasteStart)):
			text, rest, ok := bytes.Cut(k.in[len(pasteStart):], []byte(pasteOf))
			if !ok {
				return key{}, false
			}
			k.in = rest
			return k.paste(string(text)), true
		case c == 0x1b:
			n := sequence(k.in)
			if n == 0 {
				return key{}, false
			}
			do := sequences[string(k.in[1:n])]
			if do == noKey && n == 2 {
				n = 1 // Escape, followed by another key
			}
			k.in = k.in[n:]
			if do != noKey {
				return key{do: do}, true
			}
		case c < ' ' || c == 127:
			k.in = k.in[1:]
			if do := controls[c]; do != noKey {
				return key{do: do}, true
			}
		case !utf8.FullRune(k.in):
			return key{}, false
		default:
			r, n := utf8.DecodeRune(k.in)
			k.in = k.in[n:]
			if !unicode.IsControl(r) && (r != utf8.RuneError || n > 1) {
				return key{do: keyText, text: string(r)}, true
			}
		}
	}
	return key{}, false
}

// sequence returns the number of bytes in the escape sequence at the start of in,
// or 0 if it is incomplete.
func sequence(in []byte) int {
	switch {
	case len(in) < 2:
		return 0
	case in[1] == '[':
		for i, c := range in[2:] {
			if c < ' ' || c > '?' {
				return i + 3
			}
		}
		return 0
	case in[1] == 'O' && len(in) < 3:
		return 0
	case in[1] == 'O':
		return 3
	}
	return 2
}

// escaping reports whether the only unread byte is ESC, which is either the
// Escape key or the start of a sequence.
func (k *keyboard) escaping() bool { return len(k.in) == 1 && k.in[0] == 0x1b }

// paste returns a key for pasted text. Text that is long or has several lines is
// shown as a placeholder.
func (k *keyboard) paste(text string) key {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if !strings.ContainsFunc(text, unicode.IsControl) && utf8.RuneCountInString(text) < 500 {
		return key{do: keyText, text: text}
	}
	k.pastes++
	count := "1 line"
	if n := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1; n > 1 {
		count = fmt.Sprintf("%d lines", n)
	}
	return key{do: keyText, cell: &cell{fmt.Sprintf("[pasted text %d: %s]", k.pastes, count), text}}
}
