package sample

import (
	"math/rand/v2"
	"testing"

	"godwit/engine/llm"
)

var piece = []byte("ab")

func everything() Params {
	p := Defaults()
	p.Seed, p.RepeatPenalty, p.FrequencyPenalty = 1, 1.1, 0.1
	p.DRYMultiplier, p.DRYLastN = 0.8, 256
	p.XTCProbability, p.TypicalP = 0.5, 0.95
	p.LogitBias = map[llm.Token]float64{3: 1}
	return p
}

func TestNoAllocations(t *testing.T) {
	cases := map[string]Params{"everything": everything()}
	for name, p := range chains {
		cases[name] = p
	}
	for name, p := range cases {
		rng := rand.New(rand.NewPCG(1, 2))
		logits := gaussian(rng, 5000, 12)
		mask := randomMask(rng, 5000)
		s := mustNew(t, p, 5000, func(llm.Token) []byte { return piece })
		step := func() {
			tok, err := s.Sample(logits, mask)
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(tok)
		}
		for range 1000 { // the scratch reaches its size
			step()
		}
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%s: %v allocations a token", name, n)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	const vocab = 262144
	rng := rand.New(rand.NewPCG(1, 2))
	logits := gaussian(rng, vocab, 20)
	mask := randomMask(rng, vocab)
	d := Defaults()
	for _, c := range []struct {
		name string
		p    Params
		mask Mask
	}{
		{"greedy", Params{}, nil},
		{"greedy-mask", Params{}, mask},
		{"defaults", d, nil},
		{"defaults-mask", d, mask},
		{"everything", everything(), nil},
		{"pure", chains["pure"], nil},
		{"top-p", chains["top-p"], nil},
		{"min-p", chains["min-p"], nil},
		{"top-p-min-p", chains["top-p and min-p"], nil},
		{"typical", chains["typical"], nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustNew(b, c.p, vocab, func(llm.Token) []byte { return piece })
			for b.Loop() {
				tok, err := s.Sample(logits, c.mask)
				if err != nil {
					b.Fatal(err)
				}
				s.Accept(tok)
			}
		})
	}
	b.Run("logprobs", func(b *testing.B) {
		var l Logprobs
		for b.Loop() {
			if err := l.Read(logits, 20); err != nil {
				b.Fatal(err)
			}
		}
	})
}
