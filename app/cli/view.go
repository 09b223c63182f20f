package cli

import (
	"fmt"
	"io"
	"strings"
)

// view is the editor's output on the terminal.
type view struct {
	to            io.Writer
	size          func() (width, height int, err error)
	prompt        string
	width, height int
	row           int    // row of the cursor, below the first row
	drawn         string // text on the terminal, up to the cursor
	rest          bool   // whether there is text after the cursor
}

// begin starts a new line on an empty row.
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

// resize finds the cursor again after a terminal has wrapped the rows differently.
func (v *view) resize() {
	v.measure()
	v.row = min(len(wrap(v.width, v.drawn))-1, v.height-1)
	v.drawn = "" // the line is drawn again
}

// wipe clears the terminal.
func (v *view) wipe() {
	fmt.Fprint(v.to, "\x1b[H\x1b[2J")
	v.begin(v.prompt)
}

// draw shows a line. To place the cursor, it writes the text before the cursor
// again. The position is then right even if the terminal assumes another width
// for a character.
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
		b.WriteString(added) // the text was appended at the end of the line, and fits on the row
	default:
		v.first(&b, v.row)
		b.WriteString("\x1b[J")
		b.WriteString(strings.Join(all[top:below], ""))
		if below == len(all) && below > top+1 && all[below-1] == "" {
			b.WriteString(" \r") // at the end of a full row, terminals show the cursor on that row
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

// first moves from a row to the start of the first row.
func (v *view) first(b *strings.Builder, row int) {
	b.WriteByte('\r')
	if row > 0 {
		fmt.Fprintf(b, "\x1b[%dA", row)
	}
}

// leave moves to the line below.
func (v *view) leave(l *line) {
	l.do(keyEnd)
	_ = v.draw(l) // a later write reports the error
	fmt.Fprint(v.to, "\r\n")
}

// ascii reports whether every byte takes one column.
func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
