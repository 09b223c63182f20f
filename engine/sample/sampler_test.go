package sample

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/llm"
)

func mustNew(t testing.TB, p Params, vocab int, piece func(llm.Token) []byte) *Sampler {
	t.Helper()
	s, err := New(p, vocab, piece)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// gaussian returns logits like a model's, with a wide bell curve and a few
// large values.
func gaussian(rng *rand.Rand, n, lead int) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(rng.NormFloat64() * 2)
	}
	for i := range 12 {
		l[rng.IntN(n)] += float32(lead - i)
	}
	return l
}

func randomMask(rng *rand.Rand, n int) Mask {
	m := make(Mask, (n+63)/64)
	for i := range m {
		switch rng.IntN(3) {
		case 0:
			m[i] = ^uint64(0)
		case 1:
			m[i] = rng.Uint64()
		}
	}
	m[0] |= 1
	return m
}

func allowed(m Mask, i int) bool { return m == nil || m[i/64]>>(i%64)&1 == 1 }

// oracle is the chain written from its definitions, which sorts everything and
// uses no shortcuts. It returns the remaining tokens with their final
// probabilities.
func oracle(p Params, logits []float32, m Mask, exclude bool) map[llm.Token]float64 {
	type item struct {
		id   int
		x, p float64
	}
	var c []item
	for i, x := range logits {
		if allowed(m, i) && !math.IsInf(float64(x), -1) {
			c = append(c, item{id: i, x: float64(x)})
		}
	}
	sorted := func() {
		slices.SortStableFunc(c, func(a, b item) int { return cmp.Compare(b.x, a.x) })
	}
	sorted()
	norm := func(scale float64) {
		sum := 0.0
		for i := range c {
			c[i].p = math.Exp((c[i].x - c[0].x) * scale)
			sum += c[i].p
		}
		for i := range c {
			c[i].p /= sum
		}
	}
	cutAt := func(mass float64) {
		sum := 0.0
		for i := range c {
			if sum += c[i].p; sum >= mass {
				c = c[:i+1]
				return
			}
		}
	}
	if p.TopK > 0 && p.TopK < len(c) {
		c = c[:p.TopK]
	}
	norm(1)
	if on(p.TypicalP) {
		h := 0.0
		for _, e := range c {
			if e.p > 0 {
				h -= e.p * math.Log(e.p)
			}
		}
		dev := func(e item) float64 { return math.Abs(-math.Log(e.p) - h) }
		slices.SortStableFunc(c, func(a, b item) int { return cmp.Compare(dev(a), dev(b)) })
		cutAt(p.TypicalP)
		sorted()
		norm(1)
	}
	if on(p.TopP) {
		cutAt(p.TopP)
		norm(1)
	}
	if p.MinP > 0 {
		c = slices.DeleteFunc(c, func(e item) bool { return e.p < p.MinP*c[0].p })
		norm(1)
	}
	if exclude {
		n := 0
		for n < len(c) && c[n].p >= p.XTCThreshold {
			n++
		}
		if n > 1 {
			c = c[n-1:]
		}
	}
	norm(1 / p.Temperature)
	out := map[llm.Token]float64{}
	for _, e := range c {
		out[llm.Token(e.id)] = e.p
	}
	return out
}

var chains = map[string]Params{
	"pure":            {Temperature: 1},
	"cold":            {Temperature: 0.3},
	"hot":             {Temperature: 2},
	"top-k":           {Temperature: 1, TopK: 7},
	"top-k of all":    {Temperature: 1, TopK: 1 << 20},
	"top-p":           {Temperature: 1, TopP: 0.9},
	"top-p near all":  {Temperature: 1, TopP: 0.9999},
	"min-p":           {Temperature: 1, MinP: 0.02},
	"typical":         {Temperature: 1, TypicalP: 0.6},
	"top-p and min-p": {Temperature: 0.7, TopP: 0.95, MinP: 0.05},
	"the defaults":    {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05},
	"all":             {Temperature: 1.3, TopK: 50, TypicalP: 0.9, TopP: 0.9, MinP: 0.01},
	"xtc":             {Temperature: 1, XTCProbability: 1, XTCThreshold: 0.05},
	"xtc short":       {Temperature: 1, TopK: 20, XTCProbability: 1, XTCThreshold: 0.02},
	"xtc off":         {Temperature: 1, TopK: 20, XTCProbability: 1, XTCThreshold: 0.6},
}

func TestChainKeepsWhatTheDefinitionKeeps(t *testing.T) {
	for name, p := range chains {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for round := range 60 {
				n := 1 + rng.IntN(3000)
				logits := gaussian(rng, n, 12)
				if round%3 == 0 {
					logits[rng.IntN(n)] = float32(math.Inf(-1))
					logits[0] = 1
				}
				var m Mask
				if round%2 == 1 {
					m = randomMask(rng, n)
				}
				exclude := p.XTCProbability > 0 && p.XTCThreshold <= 0.5
				want := oracle(p, logits, m, exclude)
				s := mustNew(t, p, n, nil)
				got, err := s.reduce(view{logits, m})
				if err != nil {
					t.Fatal(err)
				}
				var ids, wants []llm.Token
				for _, c := range got {
					ids = append(ids, c.id)
				}
				for id := range want {
					wants = append(wants, id)
				}
				slices.Sort(ids)
				slices.Sort(wants)
				if !slices.Equal(ids, wants) {
					t.Fatalf("round %d, %d tokens: kept %d, want %d", round, n, len(ids), len(wants))
				}
			}
		})
	}
}

// Each token's count over many draws stays within five standard deviations of
// its probability.
func TestDrawsFollowTheDistribution(t *testing.T) {
	const draws = 20000
	for name, p := range chains {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			logits := gaussian(rng, 300, 6)
			m := randomMask(rng, 300)
			want := oracle(p, logits, m, p.XTCProbability > 0 && p.XTCThreshold <= 0.5)
			before := slices.Clone(logits)
			s := mustNew(t, p, 300, nil)
			count := map[llm.Token]float64{}
			for range draws {
				tok, err := s.Sample(logits, m)
				if err != nil {
					t.Fatal(err)
				}
				count[tok]++
			}
			if !slices.Equal(before, logits) {
				t.Error("the row was changed")
			}
			for id := range count {
				if want[id] == 0 {
					t.Errorf("drew token %d, which the chain drops", id)
				}
			}
			for id, q := range want {
				if d := math.Abs(count[id] - draws*q); d > 5*math.Sqrt(draws*q*(1-q))+1 {
					t.Errorf("token %d: %v of %d draws at probability %.4f", id, count[id], draws, q)
				}
			}
		})
	}
}

func TestXTCProbability(t *testing.T) {
	s := mustNew(t, Params{Temperature: 1, TopK: 3, XTCProbability: 0.25, XTCThreshold: 0.1}, 3, nil)
	dropped, draws := 0, 20000
	logits := []float32{9, 9, -20} // the second of two top choices stays if the first is dropped
	for range draws {
		tok, err := s.Sample(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tok == 0 {
			dropped++
		}
	}
	// token 0 is drawn in half of the draws that drop nothing
	want := 0.75 * 0.5 * float64(draws)
	if d := math.Abs(float64(dropped) - want); d > 5*math.Sqrt(want) {
		t.Errorf("token 0 in %d of %d draws, want about %.0f", dropped, draws, want)
	}
}

func TestGreedy(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		logits []float32
		mask   Mask
		want   llm.Token // -1: error
	}{
		"largest":              {[]float32{1, 3, 2}, nil, 1},
		"tie: lowest id":       {[]float32{1, 3, 3}, nil, 1},
		"masked":               {[]float32{1, 3, 2}, Mask{0b101}, 2},
		"bits past the end":    {[]float32{1, 3, 2}, Mask{^uint64(0)}, 1},
		"negative":             {[]float32{-5, -3, -9}, nil, 1},
		"lowest finite":        {[]float32{-inf, -math.MaxFloat32}, nil, 1},
		"NaN":                  {[]float32{1, nan, 2}, nil, -1},
		"NaN behind the mask":  {[]float32{1, nan, 2}, Mask{0b101}, 2},
		"NaN in the mask":      {[]float32{1, nan, 2}, Mask{0b011}, -1},
		"+Inf":                 {[]float32{1, inf, 2}, nil, -1},
		"all -Inf":             {[]float32{-inf, -inf}, nil, -1},
		"empty mask":           {[]float32{1, 2}, Mask{0}, -1},
		"short mask":           {make([]float32, 65), Mask{1}, -1},
		"nothing":              {nil, nil, -1},
		"last of many, masked": {append(make([]float32, 130), 1), Mask{1, 0, 0b100}, 130},
	} {
		for _, temp := range []float64{0, 1e-320} {
			s := mustNew(t, Params{Temperature: temp, TopK: 1}, len(c.logits), nil)
			got, err := s.Sample(c.logits, c.mask)
			if c.want < 0 {
				if !errors.Is(err, ErrLogits) {
					t.Errorf("%s at %v: token %d, error %v", name, temp, got, err)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%s at %v: token %d, error %v, want %d", name, temp, got, err, c.want)
			}
		}
	}
	s := mustNew(t, Params{}, 3, nil)
	if _, err := s.Sample(make([]float32, 4), nil); !errors.Is(err, ErrLogits) {
		t.Errorf("row of another size: %v", err)
	}
}

// A client's top_p of 0 keeps one token; the struct's 0 keeps all.
func TestTopPZero(t *testing.T) {
	p := Params{Temperature: 2, Seed: 5}
	f, _ := Lookup("top_p")
	if err := f.Set(&p, 0); err != nil {
		t.Fatal(err)
	}
	s := mustNew(t, p, 4, nil)
	for range 100 {
		if tok, err := s.Sample([]float32{0, 0.1, 0, 0}, nil); err != nil || tok != 1 {
			t.Fatalf("token %d, error %v", tok, err)
		}
	}
}

// The tokens below were drawn on linux/amd64. Every platform must draw the same
// ones.
func TestSeedFixesTheTokens(t *testing.T) {
	want := map[string][]llm.Token{}
	for name, p := range chains {
		p.Seed = 42
		draw := func() (out []llm.Token) {
			rng := rand.New(rand.NewPCG(7, 8))
			s := mustNew(t, p, 1000, nil)
			for range 8 {
				tok, err := s.Sample(gaussian(rng, 1000, 6), nil)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, tok)
			}
			return out
		}
		want[name] = draw()
		if again := draw(); !slices.Equal(again, want[name]) {
			t.Errorf("%s: %v, then %v", name, want[name], again)
		}
	}
	if got := want["hot"]; !slices.Equal(got, pinnedHot) {
		t.Errorf("hot: %v, want %v", got, pinnedHot)
	}
	if got := want["all"]; !slices.Equal(got, pinnedAll) {
		t.Errorf("all: %v, want %v", got, pinnedAll)
	}
	a, b := mustNew(t, Params{Seed: -1}, 1, nil), mustNew(t, Params{Seed: -1}, 1, nil)
	if a.Seed() == b.Seed() || a.Seed() < 0 {
		t.Errorf("seeds %d and %d for -1", a.Seed(), b.Seed())
	}
}

var (
	pinnedHot = []llm.Token{373, 868, 96, 70, 737, 966, 135, 863}
	pinnedAll = []llm.Token{755, 595, 924, 111, 113, 20, 843, 751}
)

func TestExpAndLn(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 100000 {
		x := -rng.Float64() * 690
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-10*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		f := float32(x)
		if got, want := expSum([]float32{f}, 0, 1), exp(float64(f)); got != want {
			t.Fatalf("expSum of %v = %v, want %v", f, got, want)
		}
		y := math.Exp(x / 2 * float64(rng.IntN(3)-1))
		if got, want := ln(y), math.Log(y); math.Abs(got-want) > 4e-16*max(1, math.Abs(want)) {
			t.Fatalf("ln(%v) = %v, want %v", y, got, want)
		}
	}
	for x, want := range map[float64]float64{0: 1, -701: 0, math.Inf(-1): 0} {
		if got := exp(x); got != want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if ln(1) != 0 {
		t.Errorf("ln 1 = %v", ln(1))
	}
}

func TestLogprobs(t *testing.T) {
	logits := []float32{1, 3, 3, float32(math.Inf(-1)), 0}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	var l Logprobs
	if err := l.Read(logits, 3); err != nil {
		t.Fatal(err)
	}
	top := l.Top(nil)
	for i, want := range []llm.Token{1, 2, 0} {
		w := float64(logits[want]) - math.Log(sum)
		if top[i].Token != want || math.Abs(top[i].Logprob-w) > 1e-9 {
			t.Errorf("rank %d: %+v, want token %d at %v", i, top[i], want, w)
		}
	}
	if p, err := l.Of(3); err != nil || !math.IsInf(p, -1) {
		t.Errorf("ruled out: %v, %v", p, err)
	}
	if _, err := l.Of(5); !errors.Is(err, ErrLogits) {
		t.Errorf("token 5 of 5: %v", err)
	}
	if err := l.Read([]float32{float32(math.NaN())}, 1); !errors.Is(err, ErrLogits) {
		t.Errorf("NaN: %v", err)
	}
	if err := l.Read(logits, 0); err != nil || len(l.Top(nil)) != 0 {
		t.Errorf("no top: %v, %v", err, l.Top(nil))
	}
}
