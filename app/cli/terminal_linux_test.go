package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"godwit/engine/testmodel"
)

// screen is a godwit process on a pseudo-terminal. Like a plain terminal, it does
// not answer queries.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	shown  strings.Builder
}

func onTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close() //nolint:errcheck // the process has its own copy
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: exec.Command("godwit", args...), master: master}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.cmd.Env = append(os.Environ(), "GODWIT_HOME="+t.TempDir(), "TERM=xterm", "CI=", "NO_COLOR=")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// until reads the output until it contains a text and removes that text. "" waits
// for the end. It returns the output before the text.
func (s *screen) until(text string) string {
	s.t.Helper()
	for buf := make([]byte, 4096); ; {
		if before, after, ok := strings.Cut(s.shown.String(), text); ok && text != "" {
			s.shown.Reset()
			s.shown.WriteString(after)
			return before
		}
		n, err := s.master.Read(buf)
		s.shown.Write(buf[:n])
		if err != nil && text != "" {
			s.t.Fatalf("ended before it showed %q: %q", text, s.shown.String())
		}
		if err != nil {
			return s.shown.String()
		}
	}
}

// types sends keys.
func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the process to exit with the given code and returns its output.
func (s *screen) ends(code int) string {
	s.t.Helper()
	text := s.until("")
	_ = s.cmd.Wait() // the exit code is checked instead
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit code %d, want %d: %q", got, code, text)
	}
	return text
}

// The program does not query the terminal's colours, and does not consume typed
// input.
func TestTerminalIsNotAsked(t *testing.T) {
	if text := onTerminal(t, "version").ends(0); strings.ContainsRune(text, '\x1b') || !strings.Contains(text, "backend") {
		t.Errorf("%q", text)
	}
}

// A conversation ends when Ctrl-C is pressed twice, but not once or after an empty
// line. Earlier lines can be recalled.
func TestChatOnTerminal(t *testing.T) {
	model := testmodel.Small(t, "gemma3-hd64")
	s := onTerminal(t, "chat", model, "-n", "2", "--backend", "cpu", "--log-level", "warn")
	const prompt = "\x1b[?2004h\r\x1b[J> "
	s.until(prompt)
	s.types("\r")
	s.until(prompt)
	s.types("/?\r")
	if help := s.until(prompt); !strings.Contains(help, "/clear") {
		t.Errorf("/? says %q", help)
	}
	s.types("/cler\r")
	s.until("/cler is not a command")
	s.until(prompt)
	s.types("/clear\r")
	s.until("New conversation")
	s.until(prompt)
	s.types("/?\r")
	s.until(prompt)
	s.types("not sent\x03")
	s.until("Ctrl-C again")
	s.until(prompt)
	s.types("\x1a") // no shell could continue the program, so it continues by itself
	s.until(prompt)
	s.types("日本\x1b[D\x1b[A") // recalls the previous line
	s.until("/?")
	s.types("\r")
	s.until(prompt)
	s.types("\x03")
	s.until(prompt)
	s.types("\x03")
	s.ends(0)
}

// A remark about an answer begins on the line below it.
func TestRemarkOnTerminal(t *testing.T) {
	model := testmodel.Small(t, "gemma3-hd64")
	text := onTerminal(t, "chat", model, "-p", "hi", "-n", "2", "--stats", "--backend", "cpu", "--log-level", "warn").ends(0)
	if !regexp.MustCompile(`\r\n\d+ prompt tokens \(`).MatchString(text) {
		t.Errorf("%q", text)
	}
}

// An interrupted command reports that it was interrupted.
func TestInterrupted(t *testing.T) {
	model := testmodel.Small(t, "gemma3-hd64")
	long := strings.Repeat("f16,", 500) + "f16" // would take minutes without the interrupt
	s := onTerminal(t, "eval", "perplexity", model, "--pairs", long, "--backend", "cpu", "--log-level", "warn")
	s.until("measuring gemma3-hd64.gguf")
	s.types("\x03")
	if text := s.ends(130); !strings.Contains(text, "godwit: interrupted") {
		t.Errorf("%q", text)
	}
}
