package jinja

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/testmodel"
)

// BenchmarkRender renders a conversation of 100 turns with a vendor's template.
func BenchmarkRender(b *testing.B) {
	source, err := os.ReadFile(filepath.Join(testmodel.LlamaCpp(b), "llama.cpp", "models", "templates", "Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		b.Fatal(err)
	}
	tmpl, err := Parse(string(source), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	messages := NewList()
	for i := range 100 {
		m := NewDict()
		m.Set("role", Trusted([]string{"user", "assistant"}[i%2]))
		m.Set("content", Typed("A line of a conversation, of the length that people write.\nAnd a second one, with é and 你."))
		messages.Append(m)
	}
	vars := NewDict()
	vars.Set("messages", messages)
	vars.Set("add_generation_prompt", Bool(true))
	b.ReportAllocs()
	for b.Loop() {
		pieces, err := tmpl.Render(context.Background(), vars, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(Text(pieces))))
	}
}
