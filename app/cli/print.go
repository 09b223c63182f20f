package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
)

// table prints columns that line up.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{[][]string{head}} }

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	t.rows = append(t.rows, cells)
}

// printable is a text that may quote a file, with what a terminal would obey
// written as in Go. Lines and tabs stay.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// shown is what a model wrote, as standard output takes it: a file or another
// program gets every byte.
func (r *run) shown(s string) string {
	if r.screen {
		return spoken(s)
	}
	return s
}

// spoken is what a model wrote, for a terminal: without what that would obey, but
// with the format characters that scripts and emoji need.
func spoken(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' {
			return -1
		}
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
}

func (t *table) write(w io.Writer) error {
	width := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i+1 < len(row) {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// size prints bytes in binary units.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// bar is a progress bar on standard error; silent where that is no terminal.
type bar struct{ p *progressbar.ProgressBar }

// bar starts a bar for something that reports a share from 0 to 1.
func (r *run) bar(what, name string) *bar {
	if !terminal(r.err) {
		return &bar{}
	}
	return &bar{progressbar.NewOptions(1000,
		progressbar.OptionSetWriter(r.err),
		progressbar.OptionSetDescription(what+" "+name),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(0),
	)}
}

func (b *bar) share(s float64) error {
	if b.p == nil {
		return nil
	}
	return b.p.Set(int(1000 * s))
}

func (b *bar) close() {
	if b.p != nil {
		_ = b.p.Finish() // what it cannot draw is not worth an error
	}
}

// terminal reports whether w is a terminal.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
