package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What is pasted is one line with everything in it, wherever reads are cut.
func TestPaste(t *testing.T) {
	long := strings.Repeat("long ", 2000)
	for name, c := range map[string]struct{ typed, line string }{
		"typed":      {"one", "one"},
		"short":      {"say \x1b[200~this\x1b[201~!", "say this!"},
		"lines":      {"sum up: \x1b[200~a\tb\r\nc\rd\n\x1b[201~ please", "sum up: a\tb\nc\nd\n please"},
		"long":       {"\x1b[200~" + long + "\x1b[201~", long},
		"two":        {"\x1b[200~a\nb\x1b[201~ and \x1b[200~a\nc\x1b[201~", "a\nb and a\nc"},
		"keys in it": {"\x1b[200~a\x03\x04\rb\x1b[201~", "a\x03\x04\nb"},
	} {
		for cut, from := range map[string]func(string) io.Reader{
			"whole":      func(s string) io.Reader { return strings.NewReader(s) },
			"byte":       func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
			"in the end": func(s string) io.Reader { return iotest.HalfReader(strings.NewReader(s)) },
		} {
			k := &keyboard{from: from(c.typed)}
			text, err := io.ReadAll(k)
			if got := k.whole(string(text)); err != nil || got != c.line {
				t.Errorf("%s, %s: %q, %v; want %q", name, cut, got, err, c.line)
			}
		}
	}
}

// Waiting for a line can be interrupted, and the line is not lost.
func TestPlainLines(t *testing.T) {
	in, typed := io.Pipe()
	p := &plainLines{err: io.Discard, in: bufio.NewReader(in)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if line, err := p.read(ctx, "> "); !errors.Is(err, errInterrupted) {
		t.Errorf("%q, %v", line, err)
	}
	go func() { _, err := io.WriteString(typed, "one\ntwo"); _ = typed.CloseWithError(err) }()
	for _, want := range []said{{"one\n", nil}, {"two", nil}, {"", io.EOF}} {
		if line, err := p.read(t.Context(), "> "); line != want.line || !errors.Is(err, want.err) {
			t.Errorf("%q, %v; want %q, %v", line, err, want.line, want.err)
		}
	}
}
