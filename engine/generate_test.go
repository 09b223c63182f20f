package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/testmodel"
)

func TestGenerateText(t *testing.T) {
	e := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 512, Parallel: 2})
	prompt := "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
	first, res, err := e.Answer(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 40})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first, "Paris") || res.Finish != engine.FinishStop {
		t.Errorf("answer %q, finish %s", first, res.Finish)
	}
	again, _, err := e.Answer(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 40})
	if err != nil {
		t.Fatal(err)
	}
	if again != first {
		t.Errorf("the same request gave %q, then %q", first, again)
	}
	cut, res, err := e.Answer(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 40, Stop: []string{"Par"}})
	if err != nil {
		t.Fatal(err)
	}
	if want, _, _ := strings.Cut(first, "Par"); cut != want || res.Stop != "Par" {
		t.Errorf("stopped answer %q, want %q", cut, want)
	}
}

// A control token in a user's message stays text, and the messages are rendered with
// the model's own template.
func TestChat(t *testing.T) {
	e := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 512, Parallel: 1})
	c := &engine.Chat{Messages: []byte(`[{"role":"user","content":"What is 2 + 2? <|im_end|>"}]`)}
	tokens, err := e.Encode(t.Context(), &engine.Request{Chat: c})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := e.Model().Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	end, ok := tok.Find("<|im_end|>")
	if !ok {
		t.Fatal("no <|im_end|> in the vocabulary")
	}
	n := 0
	for _, id := range tokens {
		if id == end {
			n++
		}
	}
	if n != 2 { // after the system prompt and after the user's turn
		t.Errorf("%d end tokens in %q", n, tok.Decode(tokens, true))
	}
	text, res, err := e.Answer(t.Context(), engine.Request{Chat: c, MaxTokens: 16})
	if err != nil || text == "" || res.Prompt != len(tokens) {
		t.Errorf("answer %q, %+v, %v", text, res, err)
	}
}

// Without a token for the end of a turn, the template's end-of-turn text ends an
// answer. It does not cut an answer that follows a grammar, but the request's stop
// strings do.
func TestGrammarHoldsEnd(t *testing.T) {
	e := openPath(t, testmodel.Gemma3(t), engine.Options{Context: 512, Parallel: 1})
	c := &engine.Chat{Messages: []byte(`[{"role":"user","content":"What is the capital of France?"}]`)}
	const whole = "Paris<|im_end|>\nand more"
	end, err := engine.ParseGrammar(fmt.Sprintf("root ::= %q", whole))
	if err != nil {
		t.Fatal(err)
	}
	text, res, err := e.Answer(t.Context(), engine.Request{Chat: c, Grammar: end})
	if err != nil || text != whole || res.Finish != engine.FinishStop || res.Stop != "" {
		t.Errorf("answer %q, %+v, %v", text, res, err)
	}
	text, res, err = e.Answer(t.Context(), engine.Request{Chat: c, Grammar: end, Stop: []string{"<|im_end|>"}})
	if err != nil || text != "Paris" || res.Stop != "<|im_end|>" {
		t.Errorf("with a stop string of one's own: %q, %+v, %v", text, res, err)
	}
}

// The small model knows the capital of France. With its own template and greedy
// sampling, it gives the same answer twice.
func TestParis(t *testing.T) {
	e := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 512, Parallel: 1})
	c := &engine.Chat{Messages: []byte(`[{"role":"user","content":"What is the capital of France?"}]`)}
	var answers []string
	for range 2 {
		text, _, err := e.Answer(t.Context(), engine.Request{Chat: c, MaxTokens: 32})
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, text)
	}
	if !strings.Contains(answers[0], "Paris") || answers[0] != answers[1] {
		t.Errorf("answers %q", answers)
	}
}

// A grammar that is too complex for the vocabulary is an error of the request, even
// if that is noticed during generation.
func TestGrammarTooComplex(t *testing.T) {
	text := "root ::= \"a\" a0\na12 ::= [a-z]+\n"
	for i := range 12 {
		text += fmt.Sprintf("a%d ::= (a%[2]d | [a-z ] a%[2]d? | . a%[2]d)+\n", i, i+1)
	}
	g, err := engine.ParseGrammar(text)
	if err != nil {
		t.Fatal(err)
	}
	e := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 512, Parallel: 1})
	if _, _, err := e.Answer(t.Context(), engine.Request{Prompt: "hi", MaxTokens: 40, Grammar: g}); !errors.Is(err, engine.ErrRequest) {
		t.Errorf("%v, want ErrRequest", err)
	}
}
