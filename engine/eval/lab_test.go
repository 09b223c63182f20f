package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// little is a size for the tiny models, which have 320 tokens in their
// vocabulary and a context of a few thousand.
func little() eval.Size {
	s := eval.Quick()
	s.Window, s.Chunks, s.Agree, s.Distances, s.CopyItems = 64, 2, 48, []int{40}, 4
	s.Lengths, s.Depths, s.Sums, s.Runs = []int{200}, []float64{0, 1}, 3, 2
	s.Turns, s.TurnTokens, s.SpeedDepths, s.SpeedPrompt, s.SpeedGen = 2, 12, []int{0, 32}, 16, 4
	return s
}

// lab returns a lab over a tiny model that records which pairs it opens.
func lab(t *testing.T, store string, opened *[]string) *eval.Lab {
	t.Helper()
	path := golden.Small(t, tiny)
	text, err := eval.Text(eval.All)
	if err != nil {
		t.Fatal(err)
	}
	open := opener(t, path)
	return &eval.Lab{
		Open: func(ctx context.Context, k, v string, context int) (*engine.Engine, error) {
			*opened = append(*opened, k+"/"+v)
			return open(ctx, k, v, context)
		},
		Context: 4096, Text: text, Size: little(), Store: eval.Results{Dir: store},
	}
}

// TestLab runs all tasks twice, and the second run must not measure anything
// again.
func TestLab(t *testing.T) {
	store := filepath.Join(t.TempDir(), "results")
	var opened []string
	l := lab(t, store, &opened)
	last := 0.0
	l.Progress = func(p eval.Progress) {
		if p.Share < last-1e-9 || p.Share > 1+1e-9 {
			t.Errorf("%s %v: share %g behind %g", p.Task, p.Pair, p.Share, last)
		}
		last = p.Share
	}
	pairs := []kv.Pair{{K: "q8_0", V: "q4_0"}}
	cells, err := l.Run(t.Context(), eval.Tasks(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2*len(eval.Tasks()) || last < 0.999 || strings.Join(opened, " ") != "f16/f16 q8_0/q4_0" {
		t.Errorf("%d cells, share %g, opened %v", len(cells), last, opened)
	}
	for i, c := range cells {
		if want := eval.Tasks()[i%len(eval.Tasks())]; c.Task != want {
			t.Errorf("cell %d is %s, want %s", i, c.Task, want)
		}
		switch {
		case c.Speed != nil && c.Speed.InUse < c.Speed.Planned:
			t.Errorf("%s holds %d bytes of %d planned", c.K, c.Speed.InUse, c.Speed.Planned)
		case c.Arith != nil && (!c.Arith.Equal || c.Note == ""):
			t.Errorf("random weights: repeatable %v, note %q", c.Arith.Equal, c.Note)
		case c.KLD != nil && c.K == "q8_0" && !(c.KLD.Mean > 0):
			t.Errorf("divergence %g", c.KLD.Mean)
		}
	}
	opened = nil
	l = lab(t, store, &opened)
	again, err := l.Run(t.Context(), eval.Tasks(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := json.Marshal(cells)
	second, _ := json.Marshal(again)
	if len(opened) != 0 || !bytes.Equal(first, second) {
		t.Errorf("the second run opened %v; same cells: %v", opened, bytes.Equal(first, second))
	}
	if kept, err := l.Store.Cells(); err != nil || len(kept) != len(cells) {
		t.Errorf("%d cells kept, %v", len(kept), err)
	}
	defer oldBases(t, store)()
	// After Close the base is gone. Another pair needs f16's run again, and
	// nothing else.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), []eval.Task{eval.TaskKLD}, []kv.Pair{{K: "q4_0", V: "q4_0"}}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(opened, " ") != "f16/f16 q4_0/q4_0" {
		t.Errorf("another pair opened %v", opened)
	}
	// A cell that cannot be read is measured again.
	if err := os.WriteFile(filepath.Join(store, "cell-"+cells[0].Key+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), eval.Tasks(), pairs); err != nil {
		t.Error(err)
	}
	checkReport(t, cells)
}

// oldBases adds base files of other runs to a store. The returned function,
// called after a lab is closed, checks that only the recent one is left.
func oldBases(t *testing.T, store string) func() {
	t.Helper()
	old, young := filepath.Join(store, "base-old"), filepath.Join(store, "base-young.part1")
	for _, name := range []string{old, young} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	return func() {
		_, errOld := os.Stat(old)
		if _, err := os.Stat(young); err != nil || !errors.Is(errOld, os.ErrNotExist) {
			t.Errorf("after Close the old base: %v, the young one: %v", errOld, err)
		}
	}
}

// TestLabBase measures with a setting. f16 with the setting is compared with f16
// without it, whose run is shared with other settings.
func TestLabBase(t *testing.T) {
	store := t.TempDir()
	var opened []string
	run := func(setup string, pairs ...kv.Pair) []eval.Cell {
		t.Helper()
		l := lab(t, store, &opened)
		open := l.Open
		l.Setup, l.BaseSetup = setup, "plain"
		l.Base = func(ctx context.Context, k, v string, context int) (*engine.Engine, error) {
			opened = append(opened, "base")
			return open(ctx, k, v, context)
		}
		l.Open = func(ctx context.Context, _, _ string, context int) (*engine.Engine, error) {
			return open(ctx, "q4_0", "q4_0", context) // the setting replaces every pair with q4_0
		}
		cells, err := l.Run(t.Context(), []eval.Task{eval.TaskKLD, eval.TaskAgree}, pairs)
		if err != nil {
			t.Fatal(err)
		}
		return cells
	}
	f16 := kv.Pair{K: "f16", V: "f16"}
	got := run("setting", f16)
	if strings.Join(opened, " ") != "base f16/f16 q4_0/q4_0" {
		t.Errorf("opened %v", opened)
	}
	if len(got) != 2 || got[0].KLD == nil || !(got[0].KLD.Mean > 0) || got[1].Agree == nil {
		t.Errorf("f16 with a setting: %d cells, %+v", len(got), got)
	}
	opened = nil
	if got = run("plain", f16); len(got) != 2 || got[0].KLD.Mean != 0 || len(opened) != 0 {
		t.Errorf("f16 without a setting is the base: %+v, opened %v", got, opened)
	}
	if got = run("other", kv.Pair{K: "q8_0", V: "q8_0"}); len(got) != 4 || strings.Join(opened, " ") != "q4_0/q4_0" {
		t.Errorf("another setting: %d cells, opened %v", len(got), opened)
	}
}

// TestLabUnable checks that tasks that f16 itself cannot do are skipped on
// request, with the reason.
func TestLabUnable(t *testing.T) {
	var opened []string
	l := lab(t, t.TempDir(), &opened)
	l.SkipUnable = true
	cells, err := l.Run(t.Context(), []eval.Task{eval.TaskCopy, eval.TaskNeedle, eval.TaskArith}, []kv.Pair{{K: "q8_0", V: "q8_0"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		measured := c.Copy != nil || c.Needle != nil || c.Arith != nil
		want := c.K == "f16" || c.Task == eval.TaskArith // sums are repeated for every model
		if measured != want || !strings.Contains(c.Note, "under the floor") {
			t.Errorf("%s of %s: measured %v, want %v; note %q", c.Task, c.K, measured, want, c.Note)
		}
	}
}

// TestLabInterrupted checks that cells that were finished before an error are
// kept.
func TestLabInterrupted(t *testing.T) {
	store := t.TempDir()
	var opened []string
	l := lab(t, store, &opened)
	ctx, cancel := context.WithCancel(t.Context())
	l.Progress = func(p eval.Progress) {
		if p.Task == eval.TaskCopy {
			cancel()
		}
	}
	if _, err := l.Run(ctx, eval.Tasks(), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled run: %v", err)
	}
	if kept, err := l.Store.Cells(); err != nil || len(kept) < 2 {
		t.Errorf("%d cells kept, %v", len(kept), err)
	}
}

// TestLabUnwritable checks that nothing is measured if the folder cannot be
// written, here because it is a dangling link.
func TestLabUnwritable(t *testing.T) {
	store := filepath.Join(t.TempDir(), "results")
	if err := os.Symlink(store+"-not", store); err != nil {
		t.Fatal(err)
	}
	var opened []string
	if _, err := lab(t, store, &opened).Run(t.Context(), eval.Tasks(), nil); err == nil || len(opened) > 0 {
		t.Errorf("%v after %v", err, opened)
	}
	full := t.TempDir()
	if err := (eval.Results{Dir: full}).Try(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(full); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

// checkReport writes a report in every form.
func checkReport(t *testing.T, cells []eval.Cell) {
	t.Helper()
	rep := &eval.Report{Model: `<script>alert("x")</script>`, Machine: "a & b", Size: little(), Cells: cells}
	var page, list bytes.Buffer
	if err := errors.Join(rep.HTML(&page), rep.CSV(&list)); err != nil {
		t.Fatal(err)
	}
	var twice bytes.Buffer
	if err := rep.HTML(&twice); err != nil || twice.String() != page.String() {
		t.Errorf("the same report gives another page, or %v", err)
	}
	if strings.Contains(page.String(), "<script>") {
		t.Error("a model's name is not escaped")
	}
	for _, bad := range []string{"http://", "https://", "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	plots := 0
	for rest := page.String(); ; plots++ {
		at := strings.Index(rest, "<svg")
		if at < 0 {
			break
		}
		end := strings.Index(rest, "</svg>") + len("</svg>")
		d := xml.NewDecoder(strings.NewReader(rest[at:end]))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("plot %d: %v", plots, err)
			}
		}
		rest = rest[end:]
	}
	if plots < 3 {
		t.Errorf("%d plots", plots)
	}
	for _, want := range []string{"q8_0,q4_0,KLD,", "f16,f16,copy at 40,", "q8_0,q4_0,write t/s at 32,"} {
		if !strings.Contains(list.String(), want) {
			t.Errorf("no %q in the list:\n%s", want, list.String())
		}
	}
	table := rep.Table(true)
	for _, line := range table {
		if len(line) != len(table[0]) {
			t.Errorf("a line of %d cells under a head of %d", len(line), len(table[0]))
		}
	}
}

func TestRecommend(t *testing.T) {
	path := golden.Small(t, tiny)
	pairs := []kv.Pair{{K: "f16", V: "f16"}, {K: "q8_0", V: "q8_0"}, {K: "q4_0", V: "q4_0"}, {K: "Q4_0", V: "q4_0"}}
	plan := func(p kv.Pair, context int) (layout.Plan, error) {
		want, err := engine.ParseCacheTypes(p.K, p.V)
		if err != nil {
			return layout.Plan{}, err
		}
		return engine.PlanFile(path, tiny, engine.Options{Context: context, Parallel: 1, Want: want})
	}
	size := func(p kv.Pair) int64 {
		pl, err := plan(p, 512)
		if err != nil {
			t.Fatal(err)
		}
		return pl.Bytes
	}
	all := eval.Limits{Agreement: 0, KLD: 1e9}
	none := eval.Limits{Agreement: 2}
	for _, c := range []struct {
		name   string
		limits eval.Limits
		budget int64
		best   string // recommended pair; empty: none
		why    map[string]string
	}{
		{"anything goes", all, 0, "q4_0", map[string]string{"q8_0": "not measured", "Q4_0 + q4_0": "same cache", "f16": "not measured"}},
		{"f16 alone", eval.Limits{Agreement: 1, KLD: 0}, 0, "f16", map[string]string{"q8_0": "divergence", "q4_0": "divergence"}},
		{"too little memory", all, size(pairs[2]) - 1, "", map[string]string{"q4_0": "iB, the budget is ", "f16": "iB, the budget is "}},
		{"f16 too large", none, size(pairs[0]) - 1, "", map[string]string{"f16": "budget", "q8_0": "agreement"}},
	} {
		store := t.TempDir()
		var opened []string
		l := lab(t, store, &opened)
		rec, err := eval.Recommend(t.Context(), l, eval.Ask{Context: 512, Budget: c.budget, Pairs: pairs, Limits: c.limits, Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Best.String(); rec.Found != (c.best != "") || rec.Found && got != c.best {
			t.Errorf("%s: found %v %s, want %q; %+v", c.name, rec.Found, got, c.best, rec.Tried)
		}
		for _, v := range rec.Tried {
			if want := c.why[v.Pair.String()]; want != "" && !strings.Contains(strings.Join(v.Reasons, "; "), want) {
				t.Errorf("%s: %v: %q, want a reason with %q", c.name, v.Pair, v.Reasons, want)
			}
		}
		stored, err := eval.Results{Dir: store}.Recommendation()
		if err != nil || stored == nil || stored.Best != rec.Best || len(stored.Tried) != len(pairs) {
			t.Errorf("%s: stored %+v, %v", c.name, stored, err)
		}
	}
	if rec, err := (eval.Results{Dir: t.TempDir()}).Recommendation(); rec != nil || err != nil {
		t.Errorf("nothing stored gives %v, %v", rec, err)
	}
}
