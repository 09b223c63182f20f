package kv

import (
	"testing"

	"godwit/engine/llm"
)

func TestResolveStock(t *testing.T) {
	k, err := Parse("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	layers := make([]LayerInfo, 4)
	for i := range layers {
		layers[i] = LayerInfo{Layer: i, Cached: true, Heads: 8, KVHeads: 2, HeadDimK: 64, HeadDimV: 64, Share: -1}
	}
	layers[1].Window = 100
	l, err := Resolve(Want{K: k}, layers, Settings{Cells: 1000, Seqs: 2, UBatch: 64})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.BytesPerToken(), 3*2*(68+128); got != want {
		t.Errorf("bytes a token: %d, want %d", got, want)
	}
	c, err := New(&l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := c.Extend(0, 64); err != nil {
			t.Fatal(err)
		}
	}
	tables := c.Tables(nil, []llm.Span{{Seq: 0, Rows: 64, Len: 640}})
	if len(tables) != 2 || len(tables[0][0]) != 10 {
		t.Errorf("tables %v", tables)
	}
}
