package engine

import (
	"fmt"
	"math"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
	"godwit/engine/testmodel"
)

// shiftRig generates text with the real model in a small context and keeps the logits
// of the first token after a shift.
type shiftRig struct {
	*Engine
	context int
	look    func() // called before the job ends, while its cells are in the cache; may be nil
}

// run reads a prompt that fills the context except for one token, and generates two
// tokens. The second one is the first token after the shift. run returns the logits
// after this token, and the shifted text, which ends with it.
func (r *shiftRig) run(t *testing.T, prompt []llm.Token, keep int) (logits []float32, text []llm.Token) {
	t.Helper()
	steps := 0
	text = append(text, prompt...)
	done := make(chan error, 1)
	err := r.sched.Submit(t.Context(), sched.Job{
		Prompt: prompt, Slot: 0, Fresh: true, Keep: keep,
		Next: func(row []float32) (llm.Token, bool, error) {
			steps++
			if len(text) == r.context { // the context is full, so the next token comes after the shift
				drop := (len(text) - keep) / 2
				text = append(text[:keep], text[keep+drop:]...)
			}
			best := 0
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			if steps == 3 {
				logits = append([]float32(nil), row...)
				if r.look != nil {
					r.look()
				}
				return 0, false, nil
			}
			text = append(text, llm.Token(best))
			return llm.Token(best), true, nil
		},
		Done: func(_ sched.Finish, st sched.Stats, err error) {
			if err == nil && st.Shifts != 1 {
				err = fmt.Errorf("%d shifts, want 1", st.Shifts)
			}
			done <- err
		},
	})
	if err == nil {
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	return logits, text
}

// divergence returns KL(p || q) of two rows of logits, in nats.
func divergence(p, q []float32) float64 {
	norm := func(row []float32) float64 {
		var sum float64
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		return math.Log(sum)
	}
	np, nq := norm(p), norm(q)
	var kl float64
	for i := range p {
		lp, lq := float64(p[i])-np, float64(q[i])-nq
		kl += math.Exp(lp) * (lp - lq)
	}
	return kl
}

// prose returns n tokens of an ordinary text in the real model's vocabulary.
func prose(t *testing.T, e *Engine, n int) []llm.Token {
	t.Helper()
	tok, err := e.model.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	const text = `The godwit leaves the coast of Alaska in autumn and flies across the whole ocean without a rest. ` +
		`It eats before it goes, and carries little else than fat and feathers. Eight days later it comes down in New Zealand. ` +
		`People have followed its way with small senders on its back and found that it sleeps while it flies, one half of the head at a time. `
	ids := tok.EncodeText(text+text+text+text, false, false)
	if len(ids) < n {
		t.Fatalf("%d tokens of text, want %d", len(ids), n)
	}
	return ids[:n]
}

func named(t *testing.T, name string) *kv.Type {
	t.Helper()
	x, err := kv.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// After a shift, the logits stay close to those of a fresh computation of the
// shifted text: at most a quarter of the distance without rotating the keys. The
// scheduler's tests check the keys of every type.
func TestShiftLogits(t *testing.T) {
	path := testmodel.SmolLM2(t)
	const size, keep = 192, 16
	for _, c := range []struct {
		typ    *kv.Type
		newest int
	}{{kv.F16, 0}, {named(t, "q8_0"), 0}, {named(t, "turbo4"), 0}, {named(t, "turbo4"), 64}} {
		typ := c.typ
		t.Run(fmt.Sprintf("%s/%d", typ.Name, c.newest), func(t *testing.T) {
			e, err := Open(t.Context(), path, Options{
				Context: size, Parallel: 1, UBatch: 64, Want: layout.Want{K: typ, V: kv.F16}, ContextShift: true,
				KV: layout.Settings{ExactWindow: &c.newest, ExactSinks: new(int)},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r := &shiftRig{Engine: e, context: size}
			prompt := prose(t, e, size-1)
			got, text := r.run(t, prompt, keep)
			fresh, err := e.Logits(t.Context(), text, []int{len(text) - 1}, false)
			if err != nil {
				t.Fatal(err)
			}
			near := divergence(fresh, got)
			// The same without rotating the keys, on the same device and cache.
			e.sched.Close()
			e.sched = sched.New(e.prog, e.cache, sched.Options{
				Context: size, Rows: 64, Outputs: 32, Vocab: len(fresh), Shift: true, Rotary: make([]layout.Rotary, e.Config().Layers),
			})
			wrong, _ := r.run(t, prompt, keep)
			far := divergence(fresh, wrong)
			t.Logf("%s: %.4f nats from a fresh reading, %.4f without turning", typ.Name, near, far)
			if !(near < far/4) {
				t.Errorf("%g nats from a fresh reading, %g without turning the keys", near, far)
			}
		})
	}
}

// In the first layer, keys do not depend on other tokens. A shifted key therefore
// equals the fresh one, except that it was encoded twice, so its error is at most
// twice as large.
func TestShiftKeys(t *testing.T) {
	path := testmodel.SmolLM2(t)
	const size, keep = 192, 16
	keys := func(t *testing.T, typ *kv.Type, shift bool) (x [][]float32) {
		t.Helper()
		e, err := Open(t.Context(), path, Options{
			Context: size, Parallel: 1, UBatch: 64, Want: layout.Want{K: typ, V: kv.F16}, ContextShift: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		r := &shiftRig{Engine: e, context: size}
		read := func() {
			x = nil
			y := &e.p.Layout.Layers[0]
			row := make([]byte, y.K.RowBytes)
			for pos := keep; pos < e.cache.Len(0)-1; pos++ { // the last row was not shifted
				if err := e.prog.ReadRow(row, 0, kv.K, layout.Packed, e.cache.Cell(y.Group, 0, pos)); err != nil {
					t.Error(err)
				}
				head := make([]float32, y.K.HeadDim)
				y.K.Active.Decode(head, row, kv.At{Pos: pos, RopeBase: y.RopeBase})
				x = append(x, head)
			}
		}
		if shift {
			r.look = read
		}
		_, text := r.run(t, prose(t, e, size-1), keep)
		if !shift {
			if err := e.wait(t.Context(), sched.Job{Prompt: text, Slot: 0, Fresh: true}); err != nil {
				t.Fatal(err)
			}
			if err := e.sched.Do(t.Context(), read); err != nil {
				t.Fatal(err)
			}
		}
		return x
	}
	exact := keys(t, kv.F32, false)
	distance := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]-b[i]) * float64(a[i]-b[i])
		}
		return math.Sqrt(sum)
	}
	for _, typ := range []*kv.Type{kv.F32, named(t, "q8_0")} {
		fresh, shifted := keys(t, typ, false), keys(t, typ, true)
		var once, twice float64
		for i := range exact {
			once += distance(fresh[i], exact[i])
			twice += distance(shifted[i], exact[i])
		}
		t.Logf("%s: error %.5f encoded once, %.5f shifted", typ.Name, once/float64(len(exact)), twice/float64(len(exact)))
		// f32: the angles are rounded to float32 twice.
		if !(twice <= 2*once+1e-5*float64(len(exact))) {
			t.Errorf("%s: shifted keys are %g wrong together, encoded once %g", typ.Name, twice, once)
		}
	}
}
