package engine_test

import (
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
