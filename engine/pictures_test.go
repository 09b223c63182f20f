package engine_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// openTower opens a golden text model with its projector.
func openTower(t *testing.T, m *golden.Tower, r *golden.TowerRun, o engine.Options) *engine.Engine {
	t.Helper()
	o.MMProj, o.Threads = m.Path(t, m.MMProj), 2
	o.ImageLimits = engine.ImageLimits{Min: max(r.Min, 0), Max: max(r.Max, 0)}
	e, err := engine.Open(context.Background(), m.Path(t, m.Text), o)
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

func runPictures(t *testing.T, m *golden.Tower, r *golden.TowerRun) [][]byte {
	t.Helper()
	var out [][]byte
	for _, i := range r.Images {
		out = append(out, m.Picture(t, i))
	}
	return out
}

// farthestRow returns the largest difference between two lists.
func farthestRow(a, b []float32) float64 {
	worst := 0.0
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// TestPictureLogits checks the logits of prompts that contain pictures against the
// golden logits, in one batch, in small batches and token by token.
func TestPictureLogits(t *testing.T) {
	for _, m := range golden.Towers(t) {
		t.Run(m.Name, func(t *testing.T) {
			want := m.Floats(t, m.Logits)
			for k := range m.Runs {
				r := &m.Runs[k]
				row := want[r.Offset:][:len(r.Positions)*m.Vocab]
				for _, ubatch := range []int{0, 7} {
					e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}, UBatch: ubatch, Parallel: 2})
					for _, step := range []bool{false, true} {
						got, err := e.LogitsOf(context.Background(), r.Prompt, runPictures(t, &m, r), r.Positions, step)
						if err != nil {
							t.Fatal(err)
						}
						if d := farthestRow(got, row); !(d <= m.LogitBound) {
							t.Errorf("run %d, batches of %d, one by one %v: logits differ by %g, at most %g", k, ubatch, step, d, m.LogitBound)
						}
					}
				}
			}
		})
	}
}

// TestPicturePositions computes the logits after every row of a prompt. A tile that
// is read in one step has more rows than a step has outputs.
func TestPicturePositions(t *testing.T) {
	for _, m := range golden.Towers(t) {
		r := &m.Runs[1]
		e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}})
		all := make([]int, r.Tokens)
		for i := range all {
			all[i] = i
		}
		got, err := e.LogitsOf(context.Background(), r.Prompt, runPictures(t, &m, r), all, false)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		for i, pos := range r.Positions {
			want := m.Floats(t, m.Logits)[r.Offset+i*m.Vocab:][:m.Vocab]
			if d := farthestRow(got[pos*m.Vocab:(pos+1)*m.Vocab], want); !(d <= m.LogitBound) {
				t.Errorf("%s: logits at %d differ by %g", m.Name, pos, d)
			}
		}
		if _, err := e.LogitsOf(context.Background(), r.Prompt, runPictures(t, &m, r), []int{r.Tokens}, false); err == nil {
			t.Errorf("%s: position %d of %d tokens was accepted", m.Name, r.Tokens, r.Tokens)
		}
	}
}

// TestPicturePacked compares packed caches with the exact one. After a picture, a
// type's error is at most four times its error after text of the same length,
// because pictures and tokens have embeddings of different magnitudes.
func TestPicturePacked(t *testing.T) {
	for _, m := range golden.Towers(t) {
		r := &m.Runs[0]
		tokens := make([]llm.Token, r.Tokens)
		for i := range tokens {
			tokens[i] = llm.Token(20 + i*37%(m.Vocab-20))
		}
		read := func(ty *kv.Type) (text, picture []float32) {
			e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: ty, V: ty}, NoCalibration: true})
			text, err := e.Logits(context.Background(), tokens, r.Positions, false)
			if err == nil {
				picture, err = e.LogitsOf(context.Background(), r.Prompt, runPictures(t, &m, r), r.Positions, false)
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", m.Name, ty.Name, err)
			}
			return text, picture
		}
		exactText, exactPicture := read(kv.F32)
		for _, name := range []string{"f16", "q8_0", "gw3", "turbo3"} {
			ty, err := kv.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			text, picture := read(ty)
			cost := farthestRow(text, exactText)
			if d := farthestRow(picture, exactPicture); cost == 0 || !(d <= 4*cost) {
				t.Errorf("%s, %s: logits differ by %g, behind text by %g", m.Name, name, d, cost)
			}
		}
	}
}

// TestPictureGreedy checks that greedy decoding matches the reference at every token
// with a clear margin. A second run of the prompt does not encode the picture again.
func TestPictureGreedy(t *testing.T) {
	for _, m := range golden.Towers(t) {
		t.Run(m.Name, func(t *testing.T) {
			for k := range m.Runs {
				r := &m.Runs[k]
				e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}})
				encoded := int64(len(r.Images))
				for turn := range 2 {
					_, res, err := e.Answer(context.Background(), engine.Request{
						Prompt: r.Prompt, Images: runPictures(t, &m, r), MaxTokens: len(r.Greedy), IgnoreEOG: true,
					})
					if err != nil {
						t.Fatal(err)
					}
					if res.Prompt != r.Tokens {
						t.Errorf("run %d: %d tokens, want %d", k, res.Prompt, r.Tokens)
					}
					if n := e.ImagesEncoded(); n != encoded {
						t.Errorf("run %d, turn %d: %d pictures were encoded, want %d", k, turn, n, encoded)
					}
					if turn == 1 && r.Tokens > 2*kv.PageCells && res.Cached < kv.PageCells {
						t.Errorf("run %d: %d of %d tokens were cached", k, res.Cached, r.Tokens)
					}
					checkAnswer(t, &m, r, res.Tokens)
				}
			}
		})
	}
}

// TestPicturesAtOnce sends concurrent requests with the same pictures. Only the
// first one encodes them, and a waiting request ends at once when it is cancelled.
func TestPicturesAtOnce(t *testing.T) {
	m := golden.Towers(t)[0]
	r := &m.Runs[0]
	e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}})
	files := runPictures(t, &m, r)
	var all sync.WaitGroup
	for i := range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i == 7 {
			cancel()
		}
		all.Go(func() {
			_, _, err := e.Answer(ctx, engine.Request{Prompt: r.Prompt, Images: files, MaxTokens: 1})
			if cancelled := errors.Is(err, context.Canceled); cancelled != (i == 7) || err != nil && !cancelled {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := e.ImagesEncoded(); n != int64(len(r.Images)) {
		t.Errorf("%d pictures were encoded, want %d", n, len(r.Images))
	}
}

func checkAnswer(t *testing.T, m *golden.Tower, r *golden.TowerRun, got []llm.Token) {
	t.Helper()
	for i, want := range r.Greedy {
		if r.GreedyMargins[i] < 2*m.LogitBound {
			return
		}
		if i >= len(got) || got[i] != want {
			t.Errorf("the answer is %v, want %v", got, r.Greedy)
			return
		}
	}
}

// TestPicturesApart checks that prompts that differ only in the picture share
// nothing from the picture on.
func TestPicturesApart(t *testing.T) {
	for _, m := range golden.Towers(t) {
		r := &m.Runs[0]
		e := openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}, ImageLimits: engine.ImageLimits{}})
		ask := func(e *engine.Engine, c color.Color) []engine.Token {
			img := image.NewRGBA(image.Rect(0, 0, 96, 96))
			for i := range 96 * 96 {
				img.Set(i%96, i/96, c)
			}
			var file bytes.Buffer
			if err := png.Encode(&file, img); err != nil {
				t.Fatal(err)
			}
			var out []engine.Token
			req := engine.Request{Prompt: strings.Repeat("words ", 70) + "<__media__> and", Images: [][]byte{file.Bytes()}, MaxTokens: 2, IgnoreEOG: true, Logprobs: true}
			for ev, err := range e.Generate(context.Background(), req) {
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				out = append(out, ev.Tokens...)
			}
			return out
		}
		ask(e, color.White)
		warm := ask(e, color.Black)
		cold := ask(openTower(t, &m, r, engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}}), color.Black)
		same := slices.EqualFunc(warm, cold, func(a, b engine.Token) bool { return a.ID == b.ID && a.Logprob == b.Logprob })
		if !same {
			t.Errorf("%s: behind another picture the answer is %v, alone %v", m.Name, warm, cold)
		}
	}
}

// TestNoProjector checks that a model without a projector rejects pictures with an
// error that names the model, and that a projector of another width is rejected.
func TestNoProjector(t *testing.T) {
	list := golden.Towers(t)
	e, err := engine.Open(context.Background(), list[0].Path(t, list[0].Text), engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err = e.LogitsOf(context.Background(), "a <__media__>", [][]byte{{1}}, nil, false); err == nil || !strings.Contains(err.Error(), e.Config().Name) {
		t.Errorf("a text model was given a picture: %v", err)
	}
	for _, m := range list {
		if m.Family != "internvl" {
			continue
		}
		_, err := engine.Open(context.Background(), list[0].Path(t, list[0].Text), engine.Options{MMProj: m.Path(t, m.MMProj), Threads: 1})
		if err == nil || !strings.Contains(err.Error(), "48") || !strings.Contains(err.Error(), "64") {
			t.Errorf("a projector of 64 values and a model of 48: %v", err)
		}
	}
}
