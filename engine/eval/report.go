package eval

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"godwit/engine/kv"
)

// Report is the result of a lab run. Keys may be added to its JSON, but never
// removed.
type Report struct {
	Model    string `json:"model"`
	Arch     string `json:"arch"`
	Identity string `json:"identity"`
	Machine  string `json:"machine"`
	Command  string `json:"command"`
	Text     string `json:"text"` // name of the text
	Size     Size   `json:"size"`
	Cells    []Cell `json:"cells"`
}

// Row is everything about one pair.
type Row struct {
	Pair   kv.Pair
	KLD    *KLDResult
	Agree  *AgreeResult
	Copy   *CopyResult
	Needle *NeedleResult
	Arith  *ArithResult
	Turns  *TurnsResult
	Speed  *SpeedResult
	Notes  []string
}

// Rows groups the cells by pair, in the order of the cells.
func (r *Report) Rows() []Row {
	var rows []Row
	at := map[kv.Pair]int{}
	for i := range r.Cells {
		c := &r.Cells[i]
		p := kv.Pair{K: c.K, V: c.V}
		n, ok := at[p]
		if !ok {
			n = len(rows)
			at[p] = n
			rows = append(rows, Row{Pair: p})
		}
		row := &rows[n]
		switch {
		case c.KLD != nil:
			row.KLD = c.KLD
		case c.Agree != nil:
			row.Agree = c.Agree
		case c.Copy != nil:
			row.Copy = c.Copy
		case c.Needle != nil:
			row.Needle = c.Needle
		case c.Arith != nil:
			row.Arith = c.Arith
		case c.Turns != nil:
			row.Turns = c.Turns
		case c.Speed != nil:
			row.Speed = c.Speed
		}
		if c.Note != "" {
			row.Notes = append(row.Notes, string(c.Task)+": "+c.Note)
		}
	}
	return rows
}

// Notes lists what could not be measured, each once.
func (r *Report) Notes() []string {
	var out []string
	seen := map[string]bool{}
	for _, row := range r.Rows() {
		for _, n := range row.Notes {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// column is one figure of the table. Its cell is empty if the figure was not
// measured.
type column struct {
	name string
	of   func(r *Row) (value, stderr float64, ok bool)
	show func(value float64) string
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }
func five(x float64) string    { return strconv.FormatFloat(x, 'f', 5, 64) }
func three(x float64) string   { return strconv.FormatFloat(x, 'f', 3, 64) }
func one(x float64) string     { return strconv.FormatFloat(x, 'f', 1, 64) }

// shareOf returns a rate, or false if the task has a note or no items.
func shareOf(s *Share, note string) (float64, float64, bool) {
	if note != "" || s.Items == 0 {
		return 0, 0, false
	}
	return s.Rate, s.Stderr, true
}

var columns = []column{
	{"B/token", func(r *Row) (float64, float64, bool) {
		if r.Speed == nil {
			return 0, 0, false
		}
		return float64(r.Speed.PerTok), 0, true
	}, func(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) }},
	{"KLD", func(r *Row) (float64, float64, bool) {
		if r.KLD == nil {
			return 0, 0, false
		}
		return r.KLD.Mean, r.KLD.Stderr, true
	}, five},
	{"top-1 %", func(r *Row) (float64, float64, bool) {
		if r.KLD == nil {
			return 0, 0, false
		}
		return r.KLD.Top1, r.KLD.Top1Stderr, true
	}, percent},
	{"PPL", func(r *Row) (float64, float64, bool) {
		if r.KLD == nil {
			return 0, 0, false
		}
		return r.KLD.Perplexity, 0, true
	}, three},
	{"agree %", func(r *Row) (float64, float64, bool) {
		if r.Agree == nil {
			return 0, 0, false
		}
		return r.Agree.Agreement, r.Agree.Stderr, true
	}, percent},
	{"copy %", func(r *Row) (float64, float64, bool) {
		if r.Copy == nil {
			return 0, 0, false
		}
		return shareOf(&r.Copy.Share, r.Copy.Note)
	}, percent},
	{"needle %", func(r *Row) (float64, float64, bool) {
		if r.Needle == nil {
			return 0, 0, false
		}
		return shareOf(&r.Needle.Share, r.Needle.Note)
	}, percent},
	{"arith %", func(r *Row) (float64, float64, bool) {
		if r.Arith == nil {
			return 0, 0, false
		}
		return shareOf(&r.Arith.Share, r.Arith.Note)
	}, percent},
	{"turns %", func(r *Row) (float64, float64, bool) {
		if r.Turns == nil {
			return 0, 0, false
		}
		return r.Turns.Agreement, r.Turns.Stderr, true
	}, percent},
	{"repeats %", func(r *Row) (float64, float64, bool) {
		if r.Turns == nil {
			return 0, 0, false
		}
		return r.Turns.Repeated, 0, true
	}, percent},
	{"read t/s", func(r *Row) (float64, float64, bool) {
		if r.Speed == nil || len(r.Speed.Depths) == 0 {
			return 0, 0, false
		}
		return r.Speed.Depths[0].Prefill, r.Speed.Depths[0].PrefillStderr, true
	}, one},
	{"write t/s", func(r *Row) (float64, float64, bool) {
		if r.Speed == nil || len(r.Speed.Depths) == 0 {
			return 0, 0, false
		}
		return r.Speed.Depths[0].Decode, r.Speed.Depths[0].DecodeStderr, true
	}, one},
}

// Table returns the report as lines of text: a header and a line for each pair.
// With errors, a column of standard errors follows each figure that has one.
func (r *Report) Table(errors bool) [][]string {
	rows := r.Rows()
	head := []string{"K", "V"}
	lines := make([][]string, len(rows))
	for i := range rows {
		lines[i] = []string{rows[i].Pair.K, rows[i].Pair.V}
	}
	for _, c := range columns {
		used, spread := false, false
		for i := range rows {
			_, e, ok := c.of(&rows[i])
			used, spread = used || ok, spread || ok && e > 0
		}
		if !used {
			continue
		}
		head = append(head, c.name)
		if errors && spread {
			head = append(head, "±")
		}
		for i := range rows {
			value, e, ok := c.of(&rows[i])
			text, pm := "-", "-"
			if ok {
				text, pm = c.show(value), c.show(e)
			}
			lines[i] = append(lines[i], text)
			if errors && spread {
				lines[i] = append(lines[i], pm)
			}
		}
	}
	return append([][]string{head}, lines...)
}

// CSV writes a line for every figure: pair, task, name, value, standard error.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"type_k", "type_v", "measure", "value", "stderr"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }
	for _, row := range r.Rows() {
		add := func(name string, value, e float64) {
			lines = append(lines, []string{row.Pair.K, row.Pair.V, name, number(value), number(e)})
		}
		for _, c := range columns {
			if value, e, ok := c.of(&row); ok {
				add(c.name, value, e)
			}
		}
		if row.Copy != nil {
			for _, d := range row.Copy.Distances {
				add(fmt.Sprintf("copy at %d", d.Tokens), d.Rate, d.Stderr)
			}
		}
		if row.Needle != nil {
			for _, g := range row.Needle.Grid {
				add(fmt.Sprintf("needle %d tokens depth %g keys %d", g.Tokens, g.Depth, g.Keys), g.Rate, g.Stderr)
			}
		}
		if row.Speed != nil {
			for _, d := range row.Speed.Depths {
				add(fmt.Sprintf("read t/s at %d", d.Depth), d.Prefill, d.PrefillStderr)
				add(fmt.Sprintf("write t/s at %d", d.Depth), d.Decode, d.DecodeStderr)
			}
		}
	}
	return out.WriteAll(lines)
}
