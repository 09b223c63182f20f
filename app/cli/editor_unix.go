//go:build unix

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// editor reads lines from a terminal with the keys of a shell: arrows, Home,
// End, word movement and history. Pasted text counts as one line, even if it
// contains line breaks.
type editor struct {
	in, out *os.File
	keys    keyboard
	line    line
	view
	pending
}

func edit(in, out *os.File) lines {
	return &editor{in: in, out: out, view: view{to: out, size: func() (int, int, error) { return term.GetSize(int(out.Fd())) }}}
}

// escapeWait is the maximum time between the bytes of an escape sequence.
const escapeWait = 50 * time.Millisecond

func (e *editor) read(ctx context.Context, prompt string) (string, error) {
	old, err := e.raw()
	if err != nil {
		return "", err
	}
	defer func() {
		fmt.Fprint(e.out, pasteOff)
		_ = term.Restore(int(e.in.Fd()), old) // an error could no longer be shown
	}()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(signals)
	e.begin(prompt)
	for {
		for k, ok := e.keys.next(); ok; k, ok = e.keys.next() {
			switch text, err := e.press(k); {
			case k.do == keySuspend:
				if err := e.suspend(old, signals); err != nil {
					return "", err
				}
			case k.do == keyEnter || err != nil:
				return text, err
			}
		}
		if err := e.draw(&e.line); err != nil {
			return "", err
		}
		if err := e.await(ctx, signals); err != nil {
			e.leave(&e.line)
			return "", err
		}
	}
}

// press handles a key. A complete line or an error ends the reading.
func (e *editor) press(k key) (string, error) {
	switch {
	case k.do == keyClear:
		e.wipe()
	case k.do == keyEnter:
		e.leave(&e.line)
		return e.line.submit(), nil
	case k.do == keyInterrupt:
		e.leave(&e.line)
		e.line = line{past: e.line.past}
		return "", errInterrupted
	case k.do == keyEOF && len(e.line.all()) == 0:
		e.leave(&e.line)
		return "", io.EOF
	default:
		e.line.press(k)
	}
	return "", nil
}

// await waits for input, for a change of the terminal's size, or for the end of
// ctx.
func (e *editor) await(ctx context.Context, signals <-chan os.Signal) error {
	var late <-chan time.Time
	if e.keys.escaping() {
		late = time.After(escapeWait)
	}
	select {
	case s := <-e.start(e.some):
		e.due = nil
		e.keys.in = append(e.keys.in, s.text...)
		return s.err
	case s := <-signals:
		if s == syscall.SIGCONT {
			_, err := e.raw()
			e.begin(e.prompt)
			return err
		}
		e.resize()
	case <-late:
		e.keys.in = nil
	case <-ctx.Done():
		return errInterrupted
	}
	return nil
}

// some reads the bytes that are available.
func (e *editor) some() (string, error) {
	buf := make([]byte, 4096)
	n, err := e.in.Read(buf)
	if n > 0 {
		return string(buf[:n]), nil
	}
	return "", err
}

// raw switches the terminal to raw mode with bracketed paste, and returns the
// previous state.
func (e *editor) raw() (*term.State, error) {
	old, err := term.MakeRaw(int(e.in.Fd()))
	if err == nil {
		fmt.Fprint(e.out, pasteOn)
	}
	return old, err
}

// suspend stops the program until it is continued, as Ctrl-Z usually does.
func (e *editor) suspend(old *term.State, signals <-chan os.Signal) error {
	if err := e.draw(&e.line); err != nil {
		return err
	}
	e.leave(&e.line)
	fmt.Fprint(e.out, pasteOff)
	if err := term.Restore(int(e.in.Fd()), old); err != nil {
		return err
	}
	_ = syscall.Kill(0, syscall.SIGTSTP) // signals the program's own process group
	for late := time.After(time.Second); ; {
		select {
		case s := <-signals:
			if s != syscall.SIGCONT {
				continue
			}
		case <-late: // no shell could continue the program, so the system did not stop it
		}
		_, err := e.raw()
		e.begin(e.prompt)
		return err
	}
}
