package engine

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/internal/golden"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// windowModels cover every kind of attention together with an exact window: plain
// heads, sliding windows, soft caps, latent rows, learned sinks, layers that read
// another layer's cache, and recurrent state.
var windowModels = []struct {
	file, k, v     string
	newest, pinned int
	rnn            bool // the model is recurrent
}{
	{"llama-hd64", "turbo3", "turbo3", 64, 4, false},
	{"llama-hd64", "gw3", "gw3", 64, 4, false},
	{"gemma3-hd64", "gw2", "gw2", 32, 4, false},
	{"gemma2-hd128", "gw4", "q4_0", 100, 1, false},
	{"deepseek2-mla", "tbq4", "tbq4", 64, 4, false},
	{"gpt-oss-f32experts", "turbo4", "q8_0", 64, 64, false},
	{"gemma4-e", "q4_0", "turbo2", 130, 4, false},
	{"gemma4-e", "gw3", "gw2", 64, 4, false},
	{"gpt-oss-f32experts", "gw4", "gw4", 70, 4, false},
	{"qwen35", "turbo3", "gw2", 70, 4, true},
}

type windowRig struct{ *Engine }

func openWindow(t *testing.T, file, k, v string, newest, pinned, ubatch int) windowRig {
	t.Helper()
	e, err := Open(t.Context(), golden.Small(t, file), Options{
		Context: 512, Cells: 6144, Parallel: 3, UBatch: ubatch, Want: layout.Want{K: named(t, k), V: named(t, v)},
		KV: layout.Settings{ExactWindow: &newest, ExactSinks: &pinned, SWABypass: layout.Off, AutoAsymmetric: layout.Off}, NoCalibration: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return windowRig{e}
}

// answer reads a prompt and generates n tokens. It returns the logits of each token
// and the job's counters.
func (r windowRig) answer(t *testing.T, prompt []llm.Token, n int) (rows []float32, stats sched.Stats) {
	t.Helper()
	done := make(chan error, 1)
	err := r.sched.Submit(t.Context(), sched.Job{
		Prompt: prompt, Slot: -1, Keep: -1,
		Next: func(row []float32) (llm.Token, bool, error) {
			rows = append(rows, row...)
			best := 0
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			n--
			return llm.Token(best), n > 0, nil
		},
		Done: func(_ sched.Finish, st sched.Stats, err error) { stats = st; done <- err },
	})
	if err == nil {
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows, stats
}

// same fails if any logit differs in a bit.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: logit %d of %d is %g, want %g", what, i, len(want), got[i], want[i])
		}
	}
}

// A repeated request gives the same logits, bit for bit: at once, after other requests,
// and from a saved slot. The whole pages of its prompt are reused, or fewer if a sliding
// window or a recurrent state has lost them.
func TestWindowRepeats(t *testing.T) {
	for _, m := range windowModels {
		t.Run(m.file+"/"+m.k, func(t *testing.T) {
			r := openWindow(t, m.file, m.k, m.v, m.newest, m.pinned, 96)
			rng := rand.New(rand.NewPCG(1, uint64(m.newest)))
			text := func(n int) (list []llm.Token) {
				for range n {
					list = append(list, llm.Token(rng.IntN(r.Config().Vocab)))
				}
				return list
			}
			prompt, other := text(230), text(150)
			want, _ := r.answer(t, prompt, 150)
			gone := m.rnn // sliding windows and recurrent states may have lost the end of the prompt
			for i := range r.p.Layout.Groups {
				gone = gone || r.p.Layout.Groups[i].Window > 0
			}
			check := func(what string, r windowRig) {
				t.Helper()
				got, st := r.answer(t, prompt, 150)
				same(t, what, got, want)
				if st.Cached != 192 && !(gone && what != "at once" && st.Cached < 192) {
					t.Errorf("%s: %d tokens reused, want 192", what, st.Cached)
				}
			}
			check("at once", r)
			r.answer(t, other, 100)
			r.answer(t, prompt[:100], 60) // a fork of the prompt
			check("after others", r)
			_, st := r.answer(t, prompt, 1)
			var file bytes.Buffer
			if _, err := r.sched.Save(t.Context(), st.Slot, &file); err != nil {
				t.Fatal(err)
			}
			fresh := openWindow(t, m.file, m.k, m.v, m.newest, m.pinned, 96)
			fresh.answer(t, other, 20)
			if _, err := fresh.sched.Restore(t.Context(), 2, "", bytes.NewReader(file.Bytes())); err != nil {
				t.Fatal(err)
			}
			check("restored", fresh)
		})
	}
}

// Rows have the same bits whether their prompt is read in chunks of any size or
// token by token.
func TestWindowChunks(t *testing.T) {
	for _, m := range windowModels {
		t.Run(m.file+"/"+m.k, func(t *testing.T) {
			tokens := make([]llm.Token, 260)
			rng := rand.New(rand.NewPCG(3, 3))
			whole := openWindow(t, m.file, m.k, m.v, m.newest, m.pinned, 260)
			for i := range tokens {
				tokens[i] = llm.Token(rng.IntN(whole.Config().Vocab))
			}
			rows := func(r windowRig, step bool) []float32 {
				list, err := r.Logits(t.Context(), tokens, []int{1, 63, 64, 100, 127, 128, 191, 192, 200, 255, 259}, step)
				if err != nil {
					t.Fatal(err)
				}
				return list
			}
			want := rows(whole, false)
			same(t, "in chunks of 70", rows(openWindow(t, m.file, m.k, m.v, m.newest, m.pinned, 70), false), want)
			if !m.rnn { // for recurrent models, a prompt and single steps differ in the last bits
				same(t, "token by token", rows(whole, true), want)
			}
		})
	}
}

// The memory of the cache equals the plan, for packed and exact pages together.
func TestWindowPlan(t *testing.T) {
	for _, m := range windowModels {
		r := openWindow(t, m.file, m.k, m.v, m.newest, m.pinned, 96)
		p, err := r.Plan(t.Context(), m.file)
		if err != nil {
			t.Fatal(err)
		}
		sum, exact := p.PassingBytes, int64(0)
		for _, l := range p.Layers {
			sum += l.K.Bytes + l.V.Bytes
			exact += l.K.ExactBytes + l.V.ExactBytes
		}
		if got := r.prog.Memory().Cache; got != p.Bytes || got != sum || exact == 0 {
			t.Errorf("%s: %d bytes allocated, %d planned, %d in the layers, %d of them exact", m.file, got, p.Bytes, sum, exact)
		}
	}
}
