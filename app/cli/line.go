package cli

import (
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

// cell is one cursor step: a visible character of one or more runes, or the
// placeholder of a pasted text.
type cell struct{ shown, text string }

// cells splits a text into characters.
func cells(text string) []cell {
	var list []cell
	for state := -1; text != ""; {
		var c string
		c, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		list = append(list, cell{spoken(c), c})
	}
	return list
}

// whole returns the text of cells, with complete pasted texts.
func whole(list []cell) string {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(c.text)
	}
	return b.String()
}

// visible returns the text of cells as a terminal shows it.
func visible(list []cell) string {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(c.shown)
	}
	return b.String()
}

// wrap cuts a text into rows as a terminal does. After a full last row, it adds
// an empty row for the cursor.
func wrap(width int, text string) []string {
	rows, column := []string{""}, 0
	for state := -1; text != ""; {
		var c string
		var wide int
		c, text, wide, state = uniseg.FirstGraphemeClusterInString(text, state)
		if column > 0 && column+wide > width {
			rows, column = append(rows, ""), 0
		}
		rows[len(rows)-1] += c
		column += wide
	}
	if column >= width {
		rows = append(rows, "")
	}
	return rows
}

// line is the text being edited, before and after the cursor, and the history.
type line struct {
	before, after []cell
	past          [][]cell
	back          int    // number of lines back in the history; 0 for the line being edited
	draft         []cell // the user's unsent line, while an older line is shown
}

// action is the effect of a key.
type action int

const (
	noKey action = iota
	keyText
	keyEnter
	keyInterrupt
	keyEOF
	keySuspend
	keyClear
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyHome
	keyEnd
	keyUp
	keyDown
	keyRubOut
	keyRemove
	keyRubOutWord
	keyRemoveWord
	keyRubOutAll
	keyRemoveAll
	keySwap
)

// press changes the line according to a key.
func (l *line) press(k key) {
	switch {
	case k.cell != nil:
		l.before = append(l.before, *k.cell)
	case k.do == keyText:
		l.write(k.text)
	default:
		l.do(k.do)
	}
}

// do applies an action.
func (l *line) do(a action) {
	switch a {
	case keyLeft:
		l.move(-min(1, len(l.before)))
	case keyRight:
		l.move(min(1, len(l.after)))
	case keyWordLeft:
		l.move(-l.wordBefore())
	case keyWordRight:
		l.move(l.wordAfter())
	case keyHome:
		l.move(-len(l.before))
	case keyEnd:
		l.move(len(l.after))
	case keyRubOut:
		l.before = l.before[:max(0, len(l.before)-1)]
	case keyRemove, keyEOF:
		l.after = l.after[min(1, len(l.after)):]
	case keyRubOutWord:
		l.before = l.before[:len(l.before)-l.wordBefore()]
	case keyRemoveWord:
		l.after = l.after[l.wordAfter():]
	case keyRubOutAll:
		l.before = nil
	case keyRemoveAll:
		l.after = nil
	case keySwap:
		if len(l.after) == 0 && len(l.before) > 1 {
			l.move(-1)
		}
		if n := len(l.before); n > 0 && len(l.after) > 0 {
			l.before[n-1], l.after[0] = l.after[0], l.before[n-1]
			l.move(1)
		}
	case keyUp:
		l.recall(l.back + 1)
	case keyDown:
		l.recall(l.back - 1)
	}
}

// move moves the cursor by n cells, to the left if n is negative.
func (l *line) move(n int) {
	all := l.all()
	l.set(all, len(l.before)+n)
}

// set replaces the line with cells and puts the cursor after the first n.
func (l *line) set(all []cell, n int) {
	l.before, l.after = slices.Clone(all[:n]), slices.Clone(all[n:])
}

func (l *line) all() []cell { return slices.Concat(l.before, l.after) }

// wordBefore counts the cells from the start of the word before the cursor.
func (l *line) wordBefore() int {
	n := len(l.before)
	for n > 0 && l.before[n-1].text == " " {
		n--
	}
	for n > 0 && l.before[n-1].text != " " {
		n--
	}
	return len(l.before) - n
}

// wordAfter counts the cells to the start of the next word.
func (l *line) wordAfter() int {
	n := 0
	for n < len(l.after) && l.after[n].text != " " {
		n++
	}
	for n < len(l.after) && l.after[n].text == " " {
		n++
	}
	return n
}

// write inserts a text before the cursor. Its first rune may combine with the previous
// character.
func (l *line) write(text string) {
	if n := len(l.before); n > 0 && l.before[n-1].shown == l.before[n-1].text {
		text = l.before[n-1].text + text
		l.before = l.before[:n-1]
	}
	l.before = append(l.before, cells(text)...)
}

// recall shows the line that was sent n lines ago, or the user's unsent line if
// n is 0.
func (l *line) recall(n int) {
	if n < 0 || n > len(l.past) {
		return
	}
	if l.back == 0 {
		l.draft = l.all()
	}
	show := l.draft
	if n > 0 {
		show = l.past[len(l.past)-n]
	}
	l.back = n
	l.set(show, len(show))
}

// submit returns the text of the line, adds it to the history and empties the line.
func (l *line) submit() string {
	all := l.all()
	text := whole(all)
	if n := len(l.past); text != "" && (n == 0 || whole(l.past[n-1]) != text) {
		l.past = append(l.past, all)
	}
	*l = line{past: l.past}
	return text
}
