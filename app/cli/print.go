package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// table prints aligned columns.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{[][]string{head}} }

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	t.rows = append(t.rows, cells)
}

// printable escapes everything in a text that a terminal would interpret, in Go's
// notation. Line breaks and tabs stay.
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

// shown prepares the text of a model or its file for standard output. Files and
// pipes get every byte unchanged.
func (r *run) shown(s string) string {
	if r.screen {
		return spoken(s)
	}
	return s
}

// spoken prepares a model's text for a terminal. It replaces control characters
// and drops carriage returns. Newlines, tabs and format characters stay,
// because scripts and emoji need format characters.
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
			width[i] = max(width[i], uniseg.StringWidth(c))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i+1 < len(row) {
				b.WriteString(strings.Repeat(" ", width[i]-uniseg.StringWidth(c)+2))
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

// bar is a progress bar on standard error. It draws nothing if standard error
// is not a terminal. A log line clears the bar, and the next progress draws it
// again.
type bar struct {
	r *run
	p *progressbar.ProgressBar
}

// bar starts a bar for a named piece of work that reports a share from 0 to 1.
func (r *run) bar(what, name string) *bar {
	return r.draw(1000, what+" "+filepath.Base(name))
}

// draw starts a bar with total steps, or -1 if the number is unknown.
func (r *run) draw(total int64, what string, more ...progressbar.Option) *bar {
	if !terminal(r.err) {
		return &bar{}
	}
	p := progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(r.err),
		progressbar.OptionSetDescription(r.label(what)),
		progressbar.OptionSetWidth(20), // leaves room for names on a line of 80 columns
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(50*time.Millisecond),
	)...)
	r.drawn.Store(p)
	return &bar{r, p}
}

// besideLabel is the width of a bar's share, speed and times, without its
// label.
const besideLabel = 34

// label returns a bar's text, truncated so that the bar fits on one row. A longer
// bar would leave rows behind at every update.
func (r *run) label(what string) string {
	width := 80
	if f, ok := r.err.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	return fit(printable(what), max(8, width-besideLabel))
}

// fit truncates a text to a number of columns.
func fit(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	for _, c := range cells(text) {
		if uniseg.StringWidth(b.String()+c.text) >= columns {
			break
		}
		b.WriteString(c.text)
	}
	return b.String() + "…"
}

// share moves the bar to a share from 0 to 1.
func (b *bar) share(s float64) error {
	b.set(int64(1000 * s))
	return nil
}

// set moves a bar to a step. Drawing errors are ignored.
func (b *bar) set(step int64) {
	if b.p != nil {
		_ = b.p.Set64(step)
	}
}

// describe sets the text of the bar.
func (b *bar) describe(what string) {
	if b.p != nil {
		b.p.Describe(b.r.label(what))
	}
}

func (b *bar) close() {
	if b.p != nil {
		b.r.drawn.CompareAndSwap(b.p, nil)
		_ = b.p.Finish() // drawing errors are ignored
	}
}

// clearBar removes the visible bar, if there is one.
func (r *run) clearBar() {
	if p := r.drawn.Load(); p != nil {
		_ = p.Clear() // drawing errors are ignored
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
