package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// errInterrupted is what reading a line ends with after Ctrl-C.
var errInterrupted = errors.New("interrupted")

// lines is where the lines of a conversation come from.
type lines interface {
	// read shows a prompt and returns the next line, io.EOF after the last.
	read(ctx context.Context, prompt string) (string, error)
}

// lines edits lines on a terminal that can be written to. Elsewhere they come as
// they are: the console of Windows edits them itself.
func (r *run) lines() lines {
	in, ok := r.in.(*os.File)
	out, shown := r.err.(*os.File)
	if ok && shown && runtime.GOOS != "windows" && os.Getenv("TERM") != "dumb" &&
		term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		return &editor{in: in, out: out, keys: &keyboard{from: in}}
	}
	return &plainLines{err: r.err, in: bufio.NewReader(r.in)}
}

// pending is a read that can be left and taken up again, since none can be called
// off: its goroutine ends with the input.
type pending struct{ due chan said }

// said is what reading a line came to.
type said struct {
	line string
	err  error
}

func (p *pending) wait(ctx context.Context, read func() (string, error)) (string, error) {
	if p.due == nil {
		p.due = make(chan said, 1)
		go func(due chan<- said) {
			line, err := read()
			due <- said{line, err}
		}(p.due)
	}
	select {
	case s := <-p.due:
		p.due = nil
		return s.line, s.err
	case <-ctx.Done():
		return "", errInterrupted
	}
}

// plainLines reads lines as they come.
type plainLines struct {
	err io.Writer
	in  *bufio.Reader
	pending
}

func (p *plainLines) read(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(p.err, prompt)
	line, err := p.wait(ctx, func() (string, error) { return p.in.ReadString('\n') })
	if errors.Is(err, io.EOF) && line != "" {
		return line, nil // a last line without an end
	}
	if err != nil {
		fmt.Fprintln(p.err)
	}
	return line, err
}

// editor reads lines from a terminal with the keys of a shell: arrows, home, end,
// earlier lines. What is pasted is one line, however many it has.
type editor struct {
	in, out *os.File
	keys    *keyboard
	line    *term.Terminal
	pending
}

// What a terminal puts around what is pasted, once it was asked to.
const (
	pasteOn, pasteOff   = "\x1b[?2004h", "\x1b[?2004l"
	pasteStart, pasteOf = "\x1b[200~", "\x1b[201~"
)

func (e *editor) read(ctx context.Context, prompt string) (string, error) {
	old, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(e.in.Fd()), old) //nolint:errcheck // nobody is left to be told
	fmt.Fprint(e.out, pasteOn)
	defer fmt.Fprint(e.out, pasteOff)
	if e.line == nil {
		e.fresh()
	}
	e.line.SetPrompt(prompt)
	if w, h, err := term.GetSize(int(e.out.Fd())); err == nil && w > 0 {
		_ = e.line.SetSize(w, h) // it draws less well
	}
	line, err := e.wait(ctx, e.line.ReadLine)
	if err != nil {
		fmt.Fprint(e.out, "\r\n")
	}
	if errors.Is(err, io.EOF) && e.keys.interrupted {
		e.keys.interrupted = false
		e.fresh() // without what was typed
		return "", errInterrupted
	}
	return e.keys.whole(line), err
}

// fresh begins an empty line; earlier ones are kept.
func (e *editor) fresh() {
	old := e.line
	e.line = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, e.out}, "")
	if old != nil {
		e.line.History = old.History
	}
}

// keyboard is what is typed. A pasted text of several lines, or a long one, becomes a
// word that stands for it until the line is whole: a line takes no line breaks
// and no more than 4096 characters.
type keyboard struct {
	from        io.Reader
	in          bytes.Buffer // read and not looked at
	out         bytes.Buffer // to be handed on
	pasted      []pasted
	interrupted bool // Ctrl-C was the last key
}

type pasted struct{ word, text string }

func (k *keyboard) Read(p []byte) (int, error) {
	for k.out.Len() == 0 {
		buf := make([]byte, 4096)
		n, err := k.from.Read(buf)
		k.in.Write(buf[:n])
		k.look()
		if err != nil && k.out.Len() == 0 {
			if k.in.Len() == 0 {
				return 0, err
			}
			k.out.Write(k.in.Bytes())
			k.in.Reset()
		}
	}
	return k.out.Read(p)
}

// look hands on what was read, but not a paste whose end is still to come.
func (k *keyboard) look() {
	for {
		typed, rest, ok := bytes.Cut(k.in.Bytes(), []byte(pasteStart))
		held := 0
		for i := 1; !ok && i < len(pasteStart) && i <= len(typed); i++ {
			if bytes.HasSuffix(typed, []byte(pasteStart[:i])) {
				held = i // perhaps a start
			}
		}
		typed = typed[:len(typed)-held]
		if n := len(typed); n > 0 {
			k.interrupted = typed[n-1] == 3
		}
		k.out.Write(typed)
		if !ok {
			k.in.Next(len(typed))
			return
		}
		text, rest, ok := bytes.Cut(rest, []byte(pasteOf))
		if !ok {
			k.in.Next(len(typed))
			return
		}
		k.interrupted = false
		k.out.WriteString(k.paste(string(text)))
		k.in.Next(k.in.Len() - len(rest))
	}
}

// paste returns what stands for a pasted text on the line.
func (k *keyboard) paste(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) && utf8.RuneCountInString(text) < 500 {
		return text
	}
	word := fmt.Sprintf("[pasted text %d: %d lines]", len(k.pasted)+1, strings.Count(strings.TrimRight(text, "\n"), "\n")+1)
	k.pasted = append(k.pasted, pasted{word, text})
	return word
}

// whole is a line with the pasted texts in the place of their words. An earlier
// line that is sent again has them too.
func (k *keyboard) whole(line string) string {
	for _, p := range k.pasted {
		line = strings.Replace(line, p.word, p.text, 1)
	}
	return line
}
