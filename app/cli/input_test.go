package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
)

// Waiting for a line can be interrupted without losing the line.
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
		if line, err := p.read(t.Context(), "> "); line != want.text || !errors.Is(err, want.err) {
			t.Errorf("%q, %v; want %q, %v", line, err, want.text, want.err)
		}
	}
}
