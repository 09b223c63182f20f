package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"
)

// typed returns the line after keys that arrive n bytes at a time, or all at once
// if n is 0.
func typed(keys string, n int) (l line) {
	var k keyboard
	for part := range slices.Chunk([]byte(keys), max(1, min(n, len(keys)))) {
		if n == 0 {
			part = []byte(keys)
		}
		k.in = append(k.in, part...)
		for key, ok := k.next(); ok; key, ok = k.next() {
			l.press(key)
		}
		if n == 0 {
			break
		}
	}
	return l
}

// Keys edit a line character by character, however the input is split into reads.
func TestKeys(t *testing.T) {
	const family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
	long := strings.Repeat("long ", 2000)
	for _, c := range []struct{ name, keys, line, behind string }{
		{"typed", "one", "one", ""},
		{"arrows", "ac\x1b[Db\x1b[C\x1bOD", "abc", "c"},
		{"home and end", "b\x1b[Ha\x1b[Fc\x01\x1b[1~\x1b[4~d\x1b[7~", "abcd", "abcd"},
		{"words", "one two  three\x1b[1;5D\x1b[1;3D\x1bb\x1bf", "one two  three", "two  three"},
		{"rubbed out", "one\x7f\x08two three\x17\x1b\x7f!", "!", ""},
		{"removed", "abcd\x01\x1b[3~\x04\x1b[C\x0b", "c", ""},
		{"to the start", "one two\x1b[D\x15", "o", "o"},
		{"a word behind", "one two\x01\x1bd", "two", "two"},
		{"swapped", "ab\x14", "ba", ""},
		{"wide", "日本語\x1b[D\x7f", "日語", "語"},
		{"family", "a" + family + "b\x1b[D\x7f", "ab", "b"},
		{"mark", "cafe\u0301s\x1b[D\x7f", "cafs", "s"},
		{"flags", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\x7f", "\U0001f1e9\U0001f1ea", ""},
		{"escape, then a letter", "a\x1bxb", "axb", ""},
		{"keys of no use", "a\x1b[15~\x1b[24;5~\x1bOP\tb\x00", "ab", ""},
		{"controls of 8 bits", "a\u009b\u0085b\xff", "ab", ""},
		{"short paste", "say \x1b[200~this\x1b[201~!", "say this!", ""},
		{"lines", "sum up: \x1b[200~a\tb\r\nc\rd\n\x1b[201~ please", "sum up: a\tb\nc\nd\n please", ""},
		{"long paste", "\x1b[200~" + long + "\x1b[201~", long, ""},
		{"two pastes", "\x1b[200~a\nb\x1b[201~ and \x1b[200~a\nc\x1b[201~", "a\nb and a\nc", ""},
		{"a paste is one character", "x\x1b[200~a\nb\x1b[201~y\x1b[D\x7f", "xy", "y"},
		{"keys in a paste", "\x1b[200~a\x03\x04\rb\x1b[201~", "a\x03\x04\nb", ""},
	} {
		for n := range 4 {
			l := typed(c.keys, n)
			if got, behind := whole(l.all()), whole(l.after); got != c.line || behind != c.behind {
				t.Errorf("%s, %d bytes at a time: %q before %q, want %q before %q", c.name, n, got, behind, c.line, c.behind)
			}
		}
	}
}

// Earlier lines return with their pasted text, the line being written is kept, and
// empty or repeated lines are not remembered.
func TestEarlierLines(t *testing.T) {
	l := typed("one\x1b[200~\na\x1b[201~", 0)
	if got := l.submit(); got != "one\na" {
		t.Errorf("%q", got)
	}
	l.submit()
	for range 2 {
		l.write("two")
		l.submit()
	}
	l.write("draft")
	for i, want := range []struct {
		do   action
		line string
	}{{keyUp, "two"}, {keyUp, "one\na"}, {keyUp, "one\na"}, {keyDown, "two"}, {keyDown, "draft"}, {keyDown, "draft"}} {
		l.do(want.do)
		if got := whole(l.all()); got != want.line {
			t.Errorf("key %d: %q, want %q", i, got, want.line)
		}
	}
}

// console simulates a terminal's rows. After a full row the cursor waits until more
// text arrives, and a wide character that does not fit moves to the next row.
type console struct {
	width, height int
	rows          [][]string // "" is the right half of a wide character, or an empty cell
	x, y          int
}

func (c *console) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		var n int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			clear(c.rows[c.y][min(c.x, c.width-1):])
			for _, row := range c.rows[c.y+1:] {
				clear(row)
			}
			text = text[3:]
		case text[0] == '\x1b':
			if _, err := fmt.Sscanf(text, "\x1b[%dA", &n); err != nil {
				return 0, fmt.Errorf("a sequence that it does not know: %q", text)
			}
			c.y = max(0, c.y-n)
			_, text, _ = strings.Cut(text, "A")
		case text[0] == '\r':
			c.x, text = 0, text[1:]
		case text[0] == '\n':
			c.feed()
			text = text[1:]
		default:
			var cluster string
			cluster, text, n, _ = uniseg.FirstGraphemeClusterInString(text, -1)
			if c.x+n > c.width {
				c.feed()
				c.x = 0
			}
			c.rows[c.y][c.x] = cluster
			clear(c.rows[c.y][c.x+1 : c.x+n])
			c.x += n
		}
	}
	return len(p), nil
}

// feed moves one row down, and scrolls at the last row.
func (c *console) feed() {
	if c.y++; c.y == c.height {
		c.rows = append(c.rows[1:], make([]string, c.width))
		c.y--
	}
}

func (c *console) text() []string {
	var rows []string
	for _, row := range c.rows {
		rows = append(rows, strings.TrimRight(strings.Join(row, ""), " "))
	}
	return rows
}

// Whatever is typed, the terminal shows the wrapped line without remains of earlier
// text, and the cursor is where the next character goes.
func TestView(t *testing.T) {
	keys := rapid.SampledFrom([]string{
		"a", "b", " ", "word ", "日", "本語", "e\u0301", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "❤\ufe0f", "한글", "שלום",
		"\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x7f", "\x1b[3~", "\x17", "\x0b", "\x15", "\x1b[200~x\ny\x1b[201~",
		"long enough for a row", "日本語日本語日本語",
	})
	rapid.Check(t, func(t *rapid.T) {
		c := &console{width: rapid.IntRange(5, 20).Draw(t, "width"), height: rapid.IntRange(2, 8).Draw(t, "height")}
		for range c.height {
			c.rows = append(c.rows, make([]string, c.width))
		}
		v := view{to: c, size: func() (int, int, error) { return c.width, c.height, nil }}
		var k keyboard
		var l line
		l.past = [][]cell{cells("an earlier line"), cells("早い")}
		v.begin("> ")
		for _, keys := range append([]string{"\x1b[D"}, rapid.SliceOfN(keys, 1, 40).Draw(t, "keys")...) {
			k.in = append(k.in, keys...)
			for key, ok := k.next(); ok; key, ok = k.next() {
				l.press(key)
			}
			if err := v.draw(&l); err != nil {
				t.Fatal(err)
			}
			head := wrap(c.width, "> "+visible(l.before))
			all := wrap(c.width, "> "+visible(l.all()))
			at := len(head) - 1
			top := max(0, at-c.height+1)
			shown := c.text()
			start := c.y - (at - top)
			for i, row := range all[top:min(len(all), top+c.height)] {
				if got := shown[start+i]; got != strings.TrimRight(row, " ") {
					t.Fatalf("after %q row %d shows %q, want %q of %q", keys, i, got, row, shown)
				}
			}
			for i, row := range shown[min(c.height, start+len(all)-top):] {
				if row != "" {
					t.Fatalf("after %q there is %q, %d rows below the line", keys, row, i)
				}
			}
			if x := uniseg.StringWidth(head[at]); c.x != x {
				t.Fatalf("after %q the cursor is in column %d of %d, want %d", keys, c.x, c.width, x)
			}
		}
	})
}

// A text is truncated by columns, never inside a character.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		columns    int
		text, want string
	}{{8, "eight123", "eight123"}, {8, "eight1234", "eight12…"}, {6, "日本語", "日本語"}, {5, "日本語", "日本…"}, {4, "日本語", "日…"}, {3, "ae\u0301io", "ae\u0301…"}} {
		if got := fit(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
