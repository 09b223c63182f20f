package engine

import (
	"strings"
	"testing"

	"godwit/engine/chat"
	"godwit/engine/sample"
	"godwit/engine/sched"
)

// The reasoning tokens of an answer are counted, including the closing tag,
// wherever the reasoning begins. Their log-probabilities are not reported with the
// answer's.
func TestReasoningIsCounted(t *testing.T) {
	tok := openVocab(t, "llama-spm")
	tags := chat.Tags{Open: "<think>", Close: "</think>"}
	for _, c := range []struct {
		open        bool
		before      string // beginning of the answer, before the reasoning
		think, rest string
	}{
		{false, "", "", "Paris it is."},
		{false, "<think>", "hm, let me see</think>", "Paris"},
		{true, "", "the largest city of France</think>", "\n\nParis"},
		{true, "", "never ends", ""},
	} {
		s, err := sample.New(sample.Params{}, tok.VocabSize(), tok.Piece)
		if err != nil {
			t.Fatal(err)
		}
		p := chat.NewParser(chat.ParserOptions{Tags: tags, Open: c.open})
		g := generation{r: &Request{Logprobs: true}, tok: tok, sampler: s, decoder: tok.NewDecoder(true), parts: parts{p}}
		g.out.init()
		want := 0
		for i, text := range []string{c.before, c.think, c.rest} {
			ids := tok.EncodeText(text, false, false)
			if i == 1 {
				want = len(ids)
			}
			for _, id := range ids {
				logits := make([]float32, tok.VocabSize())
				logits[id] = 1
				if _, _, err := g.next(logits); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.done(sched.Stopped, sched.Stats{}, nil)
		events, _ := g.out.receive()
		var thought, said, tokens strings.Builder
		for _, ev := range events {
			switch ev.Kind {
			case Reasoning:
				thought.WriteString(ev.Text)
			case Text:
				said.WriteString(ev.Text)
				for _, t := range ev.Tokens {
					tokens.Write(t.Bytes)
				}
			}
		}
		if strings.TrimSpace(tokens.String()) != strings.TrimSpace(said.String()) {
			t.Errorf("the answer is %q, its tokens make %q", said.String(), tokens.String())
		}
		r := events[len(events)-1].Result
		if r.Reasoning != want || r.Completion < want {
			t.Errorf("%q: %d of %d tokens count as thinking, want %d; it was %q", c.before+c.think+c.rest, r.Reasoning, r.Completion, want, thought.String())
		}
		if (thought.Len() > 0) != (want > 0) {
			t.Errorf("%q: the thinking is %q", c.before+c.think+c.rest, thought.String())
		}
	}
}
