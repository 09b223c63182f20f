package engine

import (
	"strings"
	"testing"

	"godwit/engine/chat"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/sched"
)

// scripted generates from logits that always favour the next token of a text.
type scripted struct {
	*generation
	t     *testing.T
	texts []llm.Token
}

func newScripted(t *testing.T, o chat.ParserOptions, think thinkEnd, text string) *scripted {
	t.Helper()
	tok := openVocab(t, "llama-spm")
	s, err := sample.New(sample.Params{}, tok.VocabSize(), tok.Piece)
	if err != nil {
		t.Fatal(err)
	}
	g := &generation{r: &Request{}, tok: tok, sampler: s, decoder: tok.NewDecoder(true), parts: parts{chat.NewParser(o)}, think: think}
	g.out.init()
	return &scripted{g, t, tok.EncodeText(text, false, false)}
}

// run generates to the end of the script. Inserted tokens do not advance the
// script.
func (s *scripted) run(each func(n int)) (thought, said string, calls int, r *Result) {
	for n := 0; len(s.texts) > 0; n++ {
		if each != nil {
			each(n)
		}
		logits := make([]float32, s.tok.VocabSize())
		logits[s.texts[0]] = 1
		got, _, err := s.next(logits)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(s.think.queue) == 0 && got == s.texts[0] {
			s.texts = s.texts[1:]
		}
	}
	s.done(sched.Stopped, sched.Stats{}, nil)
	events, _ := s.out.receive()
	var a, b strings.Builder
	for _, ev := range events {
		switch ev.Kind {
		case Reasoning:
			a.WriteString(ev.Text)
		case Text:
			b.WriteString(ev.Text)
		case Call:
			calls = max(calls, ev.Call.Index+1)
		}
	}
	return a.String(), b.String(), calls, events[len(events)-1].Result
}

// When the reasoning budget is used up, the closing tag is inserted without cutting
// characters or tags, and the text that the model writes next is the answer.
func TestBudget(t *testing.T) {
	tags := chat.Tags{Open: "<think>", Close: "</think>"}
	const closing = "\n</think>\n\n"
	for _, c := range []struct {
		name          string
		open          bool
		budget        Budget
		text          string
		thought, said string
		tokens        int
	}{
		{"none", true, Budget{Tokens: -1}, "one two three", "one two three", "", 3},
		{"at once", true, Budget{}, "Paris", "", "Paris", 0},
		{"after two", true, Budget{Tokens: 2}, "one two Paris", "one two", "Paris", 2},
		{"message", true, Budget{Tokens: 2, Message: "\nEnough."}, "one two Paris", "one two\nEnough.", "Paris", 2},
		{"the model opens it", false, Budget{}, "<think>Paris", "", "Paris", 0},
		{"never thinks", false, Budget{}, "Paris", "", "Paris", 0},
		{"inside a character", true, Budget{Tokens: 2}, "one🦆 Paris", "one🦆", "Paris", 5},
	} {
		g := newScripted(t, chat.ParserOptions{Tags: tags, Open: c.open}, thinkEnd{budget: c.budget, closing: closing}, c.text)
		thought, said, _, r := g.run(nil)
		if strings.TrimSpace(thought) != c.thought || strings.TrimSpace(said) != c.said {
			t.Errorf("%s: thought %q, said %q", c.name, thought, said)
		}
		if want := c.tokens; c.open && r.Reasoning != want {
			t.Errorf("%s: %d tokens of reasoning, want %d", c.name, r.Reasoning, want)
		}
	}
	var control Control
	g := newScripted(t, chat.ParserOptions{Tags: tags, Open: true}, thinkEnd{budget: Budget{Tokens: -1}, control: &control, closing: closing}, "one two three four")
	thought, said, _, _ := g.run(func(n int) {
		if n == 2 {
			control.EndReasoning()
		}
	})
	if strings.TrimSpace(thought) != "one two" || strings.TrimSpace(said) != "three four" {
		t.Errorf("ended by hand: thought %q, said %q", thought, said)
	}
	g = newScripted(t, chat.ParserOptions{Kind: chat.Harmony}, thinkEnd{closing: (&chat.Prompt{Kind: chat.Harmony}).ReasoningEnd()}, "<|channel|>analysis<|message|>Paris")
	if thought, said, _, _ := g.run(nil); thought != "" || strings.TrimSpace(said) != "Paris" {
		t.Errorf("harmony: thought %q, said %q", thought, said)
	}
}
