package cli

import (
	"fmt"
	"io"
	"strings"
)

// view is what an editor shows of a line.
type view struct {
	to            io.Writer
	size          func() (width, height int, err error)
	prompt        string
	width, height int
	row           int    // row of the cursor, below the first row
	drawn         string // what is there, up to the cursor
	rest          bool   // something is behind it
}

// begin starts on an empty row.
func (v *view) begin(prompt string) {
	v.prompt, v.row, v.drawn, v.rest = prompt, 0, "", false
	v.measure()
}

func (v *view) measure() {
	v.width, v.height = 80, 24
	if w, h, err := v.size(); err == nil && w > 1 && h > 0 {
		v.width, v.height = w, h
	}
}

// resize finds the cursor again, where a terminal has wrapped the rows anew.
func (v *view) resize() {
	v.measure()
	v.row = min(len(wrap(v.width, v.drawn))-1, v.height-1)
	v.drawn = "" // is drawn again
}

// wipe clears the terminal.
func (v *view) wipe() {
	fmt.Fprint(v.to, "\x1b[H\x1b[2J")
	v.begin(v.prompt)
}

// draw shows a line. The cursor is brought to its place by writing what is before
// it once more: so it is right also where a terminal takes a character for wider
// or narrower than it is taken here.
func (v *view) draw(l *line) error {
	before := v.prompt + visible(l.before)
	head := wrap(v.width, before)
	at := len(head) - 1
	all := head
	if len(l.after) > 0 {
		all = wrap(v.width, before+visible(l.after))
	}
	top := max(0, at-v.height+1)
	below := min(len(all), top+v.height)
	var b strings.Builder
	added, longer := strings.CutPrefix(before, v.drawn)
	switch {
	case longer && v.drawn != "" && !v.rest && len(l.after) == 0 && at-top == v.row && head[at] != "" && ascii(added):
		b.WriteString(added) // at the end of the line and within the row
	default:
		v.first(&b, v.row)
		b.WriteString("\x1b[J")
		b.WriteString(strings.Join(all[top:below], ""))
		if below == len(all) && below > top+1 && all[below-1] == "" {
			b.WriteString(" \r") // the terminal waits at the end of the row before
		}
		if len(l.after) > 0 {
			v.first(&b, below-1-top)
			b.WriteString(strings.Join(head[top:], ""))
			if at > top && head[at] == "" {
				b.WriteString("\r\n")
			}
		}
	}
	v.row, v.drawn, v.rest = at-top, before, len(l.after) > 0
	_, err := io.WriteString(v.to, b.String())
	return err
}

// first goes from a row to the start of the first.
func (v *view) first(b *strings.Builder, row int) {
	b.WriteByte('\r')
	if row > 0 {
		fmt.Fprintf(b, "\x1b[%dA", row)
	}
}

// leave continues below a line.
func (v *view) leave(l *line) {
	l.do(keyEnd)
	_ = v.draw(l) // what follows says so
	fmt.Fprint(v.to, "\r\n")
}

// ascii reports whether each byte takes one column.
func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
