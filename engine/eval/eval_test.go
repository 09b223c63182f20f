package eval_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

const tiny = "llama-hd64"

// opener opens a model as the commands do.
func opener(t testing.TB, path string) eval.Opener {
	return func(ctx context.Context, k, v string, context int) (*engine.Engine, error) {
		want, err := engine.ParseCacheTypes(k, v)
		if err != nil {
			return nil, err
		}
		return engine.Open(ctx, path, engine.Options{Context: context, Parallel: 1, Want: want, Unchecked: true, Strays: true})
	}
}

func open(t testing.TB, path, k, v string, context int) *engine.Engine {
	t.Helper()
	e, err := opener(t, path)(t.Context(), k, v, context)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// arbitrary returns n ids of a vocabulary of 320.
func arbitrary(n int) []llm.Token {
	tokens := make([]llm.Token, n)
	state := uint32(7)
	for i := range tokens {
		state = state*1664525 + 1013904223
		tokens[i] = llm.Token(int(state>>8) % 320)
	}
	return tokens
}

func TestText(t *testing.T) {
	all, err := eval.Text(eval.All)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range eval.TextNames()[1:] {
		part, err := eval.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += len(part)
		if !utf8.ValidString(part) || len(part) < 2000 || !strings.HasSuffix(part, "\n") {
			t.Errorf("%s: %d bytes, valid UTF-8 %v", name, len(part), utf8.ValidString(part))
		}
		// The mixture begins with a piece of every part.
		if at := strings.Index(all, part[:100]); at < 0 || at > 8*4096 {
			t.Errorf("%s begins at byte %d of the mixture", name, at)
		}
	}
	if len(all) != sum || sum > 300<<10 {
		t.Errorf("the mixture has %d bytes, its parts %d, at most %d", len(all), sum, 300<<10)
	}
	if prose, _ := eval.Text("prose"); prose != string(golden.Read(t, "models", "ppl", "corpus_en.txt")) {
		t.Error("prose is not the text of the perplexity goldens")
	}
	if _, err := eval.Text("latin"); err == nil {
		t.Error("a text that is not there was given")
	}
}

// TestBase checks that a stored run gives the same results as a live one,
// except for rounding log-probabilities to 16 bits.
func TestBase(t *testing.T) {
	path := golden.Small(t, tiny)
	tokens := arbitrary(150)
	w := eval.Window{Context: 64, Chunks: 2}
	f16 := open(t, path, "f16", "f16", 64)
	file := filepath.Join(t.TempDir(), "base")
	p, err := eval.SaveBase(t.Context(), file, f16, tokens, w)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := eval.Perplexity(t.Context(), f16, tokens, w)
	if err != nil || direct.Perplexity != p.Perplexity || p.Tokens != 2*31 {
		t.Errorf("perplexity %v over %d tokens, without saving %v, error %v", p.Perplexity, p.Tokens, direct.Perplexity, err)
	}
	base, err := eval.OpenBase(file)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	self, err := eval.KLDFrom(t.Context(), base, f16, tokens, w)
	if err != nil {
		t.Fatal(err)
	}
	// Logits of the model span less than 40 nats, so a step is at most 6e-4.
	// Rounding by half a step causes a divergence of at most step²/8.
	if limit := 6e-4 * 6e-4 / 8; self.Max > limit || self.Top1 != 1 || self.Tokens != p.Tokens {
		t.Errorf("f16 against its own base: maximum %g, limit %g, top-1 %g", self.Max, limit, self.Top1)
	}
	packed := open(t, path, "q4_0", "q4_0", 64)
	stored, err := eval.KLDFrom(t.Context(), base, packed, tokens, w)
	if err != nil {
		t.Fatal(err)
	}
	live, err := eval.KLD(t.Context(), f16, packed, tokens, w)
	if err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(stored.Mean - live.Mean); d > 1e-2*live.Mean {
		t.Errorf("mean divergence %g from the file, %g live", stored.Mean, live.Mean)
	}
	if !(live.Median <= live.P99 && live.P99 <= live.P999 && live.P999 <= live.Max && live.Mean > 0 && live.TopP < 1 && live.DeltaPRMS > 0) {
		t.Errorf("quantiles out of order or nothing measured: %+v", live)
	}
	sparse := eval.Window{Context: 64, Chunks: 2, Every: 4}
	some := filepath.Join(t.TempDir(), "some")
	if p, err = eval.SaveBase(t.Context(), some, f16, tokens, sparse); err != nil || p.Tokens != 2*8 {
		t.Errorf("one prediction of 4: %d tokens, %v", p.Tokens, err)
	}
	few, err := eval.OpenBase(some)
	if err != nil {
		t.Fatal(err)
	}
	defer few.Close()
	if k, err := eval.KLDFrom(t.Context(), few, packed, tokens, sparse); err != nil || k.Tokens != 2*8 || !(k.Mean > stored.Mean/2 && k.Mean < 2*stored.Mean) {
		t.Errorf("one prediction of 4: %+v, of all %g, %v", k, stored.Mean, err)
	}
	if _, err := eval.KLDFrom(t.Context(), few, packed, tokens, w); !errors.Is(err, eval.ErrBase) || !strings.Contains(err.Error(), "one of every 4 predictions") {
		t.Errorf("all predictions against a base of some: %v", err)
	}
	if one, err := eval.KLDFrom(t.Context(), base, packed, tokens, eval.Window{Context: 64, Chunks: 1}); err != nil || one.Tokens != 31 {
		t.Errorf("fewer chunks than stored: %d tokens, %v", one.Tokens, err)
	}
}

// TestWrongBase checks that only the right base is accepted for a comparison.
func TestWrongBase(t *testing.T) {
	tokens, other := arbitrary(128), arbitrary(128)
	other[3] = (other[3] + 1) % 320
	w := eval.Window{Context: 64}
	e := open(t, golden.Small(t, tiny), "f16", "f16", 64)
	file := filepath.Join(t.TempDir(), "base")
	if _, err := eval.SaveBase(t.Context(), file, e, tokens, w); err != nil {
		t.Fatal(err)
	}
	base, err := eval.OpenBase(file)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	model := open(t, golden.Small(t, "qwen2-hd64"), "f16", "f16", 64)
	for what, run := range map[string]func() error{
		"another model": func() error { _, err := eval.KLDFrom(t.Context(), base, model, tokens, w); return err },
		"another text":  func() error { _, err := eval.KLDFrom(t.Context(), base, e, other, w); return err },
		"this run needs": func() error {
			_, err := eval.KLDFrom(t.Context(), base, e, tokens, eval.Window{Context: 32})
			return err
		},
	} {
		if err := run(); !errors.Is(err, eval.ErrBase) || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error about %s, got %v", what, err)
		}
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	vocab := bytes.Replace(good, []byte(`"vocab":320`), []byte(`"vocab":160`), 1)
	huge := slices.Clone(good)
	binary.LittleEndian.PutUint32(huge[8:], math.MaxUint32)
	for what, data := range map[string][]byte{
		"empty": nil, "text": []byte("not a base file at all"), "cut": good[:len(good)-1], "longer": append(slices.Clone(good), 0),
		"vocabulary": vocab, "header": huge, "half a header": good[:20],
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := eval.OpenBase(bad); !errors.Is(err, eval.ErrBase) {
			t.Errorf("%s: opened %v, error %v", what, b, err)
		}
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)-40] ^= 1
	bad := filepath.Join(t.TempDir(), "flipped")
	if err := os.WriteFile(bad, flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := eval.OpenBase(bad)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := eval.KLDFrom(t.Context(), b, e, tokens, w); !errors.Is(err, eval.ErrBase) {
		t.Errorf("a flipped bit: %v", err)
	}
}

func TestShort(t *testing.T) {
	e := open(t, golden.Small(t, tiny), "f16", "f16", 64)
	for _, n := range []int{0, 1, 63} {
		if _, err := eval.Perplexity(t.Context(), e, arbitrary(n), eval.Window{Context: 64}); !errors.Is(err, eval.ErrShort) {
			t.Errorf("%d tokens for a window of 64: %v", n, err)
		}
	}
	if _, err := eval.Perplexity(t.Context(), e, arbitrary(64), eval.Window{Context: 3}); !errors.Is(err, eval.ErrWindow) || errors.Is(err, eval.ErrShort) {
		t.Errorf("a window of 3: %v", err)
	}
}

// broken writes a copy of the tiny model with a NaN weight.
func broken(t *testing.T, tensor string) string {
	t.Helper()
	src := golden.Small(t, tiny)
	m, err := engine.OpenFile(src)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, ok := m.Tensor(tensor)
	if !ok {
		t.Fatalf("no tensor %s", tensor)
	}
	data, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, x.Data[:64])
	if at < 0 {
		t.Fatalf("data of %s not found", tensor)
	}
	binary.LittleEndian.PutUint32(data[at:], math.Float32bits(float32(math.NaN())))
	path := filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNaN checks that every measurement reports NaN with its layer and token.
func TestNaN(t *testing.T) {
	for tensor, layer := range map[string]string{
		"blk.0.ffn_down.weight": "layer 0", "blk.1.ffn_down.weight": "layer 1", "output_norm.weight": "layer 1",
		"blk.0.attn_k.weight": "layer 0", "blk.1.attn_k.weight": "layer 1", "blk.1.attn_v.weight": "layer 1", "blk.1.attn_norm.weight": "layer 1",
	} {
		path := broken(t, tensor)
		for _, k := range []string{"f32", "q8_0"} { // a float cache holds NaN; a packed one does not
			e := open(t, path, k, k, 64)
			tokens := arbitrary(64)
			_, ppl := eval.Perplexity(t.Context(), e, tokens, eval.Window{Context: 64})
			_, choices := eval.Choices(t.Context(), e, tokens, 0, nil)
			_, kld := eval.KLD(t.Context(), e, e, tokens, eval.Window{Context: 64})
			if k == "f32" {
				tasksNaN(t, path, tensor, layer)
			}
			for what, err := range map[string]error{"perplexity": ppl, "choices": choices, "divergence": kld} {
				err = eval.Locate(t.Context(), opener(t, path), err, k, k)
				if !errors.Is(err, eval.ErrNaN) || !strings.Contains(err.Error(), layer) || !strings.Contains(err.Error(), "token "+strconv.Itoa(int(tokens[0]))) {
					t.Errorf("%s in %s of a model with a broken %s: %v", what, k, tensor, err)
				}
			}
		}
	}
	plain := errors.New("something else")
	if err := eval.Locate(t.Context(), nil, plain, "f16", "f16"); !errors.Is(err, plain) {
		t.Errorf("an error about something else became %v", err)
	}
}

// tasksNaN checks that the tasks that generate text report NaN too.
func tasksNaN(t *testing.T, path, tensor, layer string) {
	t.Helper()
	s := little()
	l := &eval.Lab{Open: opener(t, path), Context: 1024, Size: s, Store: eval.Results{Dir: t.TempDir()}}
	for _, task := range []eval.Task{eval.TaskCopy, eval.TaskNeedle, eval.TaskArith, eval.TaskTurns} {
		_, err := l.Run(t.Context(), []eval.Task{task}, nil)
		if !errors.Is(err, eval.ErrNaN) || !strings.Contains(err.Error(), layer) || !strings.Contains(err.Error(), ", token ") {
			t.Errorf("%s of a model with a broken %s: %v", task, tensor, err)
		}
	}
}

// peerRun is one run of the peer over the prose of the corpus.
type peerRun struct {
	pair    kv.Pair
	plain   bool      // run without boundary layers
	running []float64 // perplexity after 1, 2, … chunks
}

// peerRuns reads the peer's runs of a model.
func peerRuns(t *testing.T, model string) (out []peerRun) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(golden.Read(t, "models", "ppl", "ppl.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		r := peerRun{pair: kv.Pair{K: row[1], V: row[2]}}
		switch note := row[4]; {
		case row[0] != model:
			continue
		case note == "attention rotation on":
			r.pair = kv.Pair{K: row[1] + "-rot", V: row[2] + "-rot"}
		case note == "no boundary layers":
			r.plain = true
		case note != "default":
			t.Fatalf("a run of %s with %q", model, note)
		}
		for word := range strings.FieldsSeq(row[len(row)-1]) {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			r.running = append(r.running, v)
		}
		out = append(out, r)
	}
	if len(out) < 8 {
		t.Fatalf("%d runs of %s", len(out), model)
	}
	return out
}

// openPolicy opens a model with a pair of types, for a context of 512 tokens.
func openPolicy(t *testing.T, path string, p kv.Pair, policy *int) *engine.Engine {
	t.Helper()
	want, err := engine.ParseCacheTypes(p.K, p.V)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), path, engine.Options{Context: 512, Parallel: 1, Want: want, KV: layout.Settings{Policy: policy}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// peerBar is how much worse than the peer a pair may be, as a share. 0 means that
// the pair is only reported, because its predictions are noise (turbo2 keys), or
// because rounding in attention alone changes them by more than half a percent
// (without boundary layers).
func (r *peerRun) peerBar() float64 {
	if r.plain {
		return 0
	}
	switch r.pair.K {
	case "f16", "q8_0":
		return 0.01
	case "turbo2":
		return 0
	case "q4_0-rot": // source: spec kv-formats.md section 10
		return 0.02
	}
	return 0.05
}

// TestPerplexity compares perplexities with the peer's, chunk by chunk. It runs six
// pairs over two chunks. With GODWIT_TEST=all it runs all of the peer's pairs over
// eight chunks. No pair may be worse than peerBar allows. A pair with f16 keys may
// not be more than 1 % better over eight chunks either, because the peer's 8-bit
// activations cost it only that much. Over two chunks, this limit is twice as
// large, because chance matters more.
func TestPerplexity(t *testing.T) {
	text, err := eval.Text("prose")
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("GODWIT_TEST") == "all"
	for model, path := range map[string]func(testing.TB) string{"smollm2": testmodel.SmolLM2, "gemma3": testmodel.Gemma3} {
		for _, run := range peerRuns(t, model) {
			few := []kv.Pair{{K: "f16", V: "f16"}, {K: "q8_0", V: "turbo3"}}
			if model == "smollm2" {
				few = append(few, kv.Pair{K: "q8_0", V: "q8_0"}, kv.Pair{K: "turbo4", V: "turbo4"})
			}
			if !all && !slices.Contains(few, run.pair) {
				continue
			}
			name, policy := model+"/"+run.pair.K+"/"+run.pair.V, (*int)(nil)
			if run.plain {
				name, policy = name+"/plain", new(int)
			}
			t.Run(name, func(t *testing.T) {
				e := openPolicy(t, path(t), run.pair, policy)
				tok, err := e.Model().Tokenizer()
				if err != nil {
					t.Fatal(err)
				}
				w := eval.Window{Context: 512, Chunks: 2, BOS: tok.BOS(), AddBOS: tok.AddBOS()}
				if all {
					w.Chunks = len(run.running)
				}
				r, err := eval.Perplexity(t.Context(), e, tok.EncodeText(text, true, false), w)
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range run.running[:w.Chunks] {
					t.Logf("%d chunks: %.4f, the peer's %.4f (%+.2f %%)", i+1, r.Running[i], want, 100*(r.Running[i]/want-1))
				}
				d, bar := r.Perplexity/run.running[w.Chunks-1]-1, run.peerBar()
				low := -0.01 * math.Sqrt(8/float64(w.Chunks))
				if bar > 0 && (d > bar || run.pair.K == "f16" && d < low) {
					t.Errorf("perplexity %.4f, the peer's %.4f: %+.2f %%, at most %+.0f %%", r.Perplexity, run.running[w.Chunks-1], 100*d, 100*bar)
				}
			})
		}
	}
}

// TestAgree checks how choices are counted.
func TestAgree(t *testing.T) {
	base := []eval.Choice{{1, 3}, {2, 0.5}, {3, 0.1}, {4, 2}}
	r := eval.Agree(base, []eval.Choice{{1, 9}, {2, 9}, {9, 9}, {4, 9}})
	want := eval.AgreeResult{Agreement: 0.75, Stderr: math.Sqrt(0.75 * 0.25 / 3), Tokens: 4, First: 2, Margin: 2, MarginLost: 0.1}
	if r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if r = eval.Agree(base, base); r.Agreement != 1 || r.First != -1 || r.MarginLost != 0 {
		t.Errorf("against itself: %+v", r)
	}
}

// TestChoices checks choice and margin against the logits of single steps.
func TestChoices(t *testing.T) {
	e := open(t, golden.Small(t, tiny), "f16", "f16", 64)
	tokens := arbitrary(20)
	got, err := eval.Choices(t.Context(), e, tokens, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Prompt rows and single rows give the same bits.
	for _, prompt := range []int{1, 13, 19} {
		if behind, err := eval.Choices(t.Context(), e, tokens, prompt, nil); err != nil || !slices.Equal(behind, got[prompt:]) {
			t.Errorf("behind %d tokens: %v, want %v, %v", prompt, behind, got[prompt:], err)
		}
	}
	for _, prompt := range []int{-1, 20} {
		if _, err := eval.Choices(t.Context(), e, tokens, prompt, nil); err == nil {
			t.Errorf("a prompt of %d of 20 tokens was taken", prompt)
		}
	}
	n := 0
	err = e.EachLogits(t.Context(), tokens, func(int) bool { return true }, true, func(pos int, row []float32) error {
		order := slices.Sorted(slices.Values(row))
		best := order[len(order)-1]
		want := eval.Choice{ID: llm.Token(slices.Index(row, best)), Margin: best - order[len(order)-2]}
		if got[pos] != want {
			t.Errorf("position %d: %+v, want %+v", pos, got[pos], want)
		}
		n++
		return nil
	})
	if err != nil || n != len(got) {
		t.Errorf("%d positions, %d choices, %v", n, len(got), err)
	}
}
