package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// TestEmbedErrors makes requests that embedding models cannot serve.
func TestEmbedErrors(t *testing.T) {
	e := openPath(t, bertLike("bert", 1).save(t, t.TempDir(), "bert"), engine.Options{Context: 1024, Threads: 1})
	if _, err := e.Logits(t.Context(), peerTokens(), []int{0}, false); !errors.Is(err, engine.ErrEmbedding) {
		t.Errorf("logits: %v", err)
	}
	for _, err := range e.Generate(t.Context(), engine.Request{Tokens: peerTokens()}) {
		if !errors.Is(err, engine.ErrEmbedding) {
			t.Errorf("generate: %v", err)
		}
	}
	if _, err := e.Embed(t.Context(), nil); err == nil {
		t.Error("an empty text has a row")
	}
	if _, err := e.Embed(t.Context(), []llm.Token{1, peerVocab}); err == nil {
		t.Error("a token outside the vocabulary has a row")
	}
	var long *sched.TooLong // the model has 512 positions
	if _, err := e.Embed(t.Context(), make([]llm.Token, 513)); !errors.As(err, &long) || long.Context != 512 {
		t.Errorf("513 tokens: %v", err)
	}
	if _, err := e.Embed(t.Context(), make([]llm.Token, 512)); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(over, peerTokens()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestEmbedBeside embeds texts while the same model computes logits. Neither
// affects the other.
func TestEmbedBeside(t *testing.T) {
	e := openPath(t, llamaMerged().save(t, t.TempDir(), "llama"), engine.Options{Context: 64, UBatch: 16, Threads: 2, Want: layout.Want{K: kv.F32, V: kv.F32}})
	want, err := e.Embed(t.Context(), peerTokens())
	if err != nil {
		t.Fatal(err)
	}
	rows := logits(t, e, peerTokens(), []int{39}, false)
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 5 {
				got, err := e.Embed(t.Context(), peerTokens())
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("another row, error %v", err)
				}
			}
		})
		g.Go(func() {
			for range 5 {
				got, err := e.Logits(t.Context(), peerTokens(), []int{39}, false)
				if err != nil || !slices.Equal(got, rows) {
					t.Errorf("other logits, error %v", err)
				}
			}
		})
	}
	g.Wait()
}
