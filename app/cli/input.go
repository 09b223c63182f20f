package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// errInterrupted is returned when Ctrl-C interrupts reading a line.
var errInterrupted = errors.New("interrupted")

// lines is a source of input lines.
type lines interface {
	// read shows a prompt and returns the next line. After the last line it returns
	// io.EOF.
	read(ctx context.Context, prompt string) (string, error)
}

// lines returns a line editor for an interactive terminal, and otherwise a
// plain reader.
func (r *run) lines() lines {
	in, ok := r.in.(*os.File)
	out, shown := r.err.(*os.File)
	if ok && shown && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		if e := edit(in, out); e != nil {
			return e
		}
	}
	return &plainLines{err: r.err, in: bufio.NewReader(r.in), asks: ok && term.IsTerminal(int(in.Fd()))}
}

// pending is a read that may outlive its caller, because reading cannot be
// cancelled. A later call continues it. Its goroutine ends with the input.
type pending struct{ due chan said }

// said is the result of reading a line.
type said struct {
	text string
	err  error
}

// start returns a channel for the result. The caller must receive the result
// before it calls start again.
func (p *pending) start(read func() (string, error)) <-chan said {
	if p.due == nil {
		p.due = make(chan said, 1)
		go func(due chan<- said) {
			text, err := read()
			due <- said{text, err}
		}(p.due)
	}
	return p.due
}

// plainLines reads lines without editing.
type plainLines struct {
	err  io.Writer
	in   *bufio.Reader
	asks bool // whether a person types the input
	pending
}

func (p *plainLines) read(ctx context.Context, prompt string) (string, error) {
	if p.asks {
		fmt.Fprint(p.err, prompt)
	}
	line := said{err: errInterrupted}
	select {
	case line = <-p.start(func() (string, error) { return p.in.ReadString('\n') }):
		p.due = nil
	case <-ctx.Done():
	}
	if errors.Is(line.err, io.EOF) && line.text != "" {
		return line.text, nil // the last line may have no line break
	}
	if line.err != nil && p.asks {
		fmt.Fprintln(p.err)
	}
	return line.text, line.err
}
