package engine_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"godwit/engine"
)

// TestRankHead reads the pooled first row of a model with the same weights as a
// reranker, applies the classifier to it in the test, and compares the result with the
// reranker's score. Float32 sums of 64 products in another order differ by about 1e-6.
func TestRankHead(t *testing.T) {
	dir := t.TempDir()
	build := func(pooling int) *maker {
		m := bertLike("bert", pooling)
		m.add("cls.weight", peerEmbd, peerEmbd)
		m.add("cls.bias", peerEmbd)
		m.add("cls.output.weight", peerEmbd, 1)
		m.add("cls.output.bias", 1)
		return m
	}
	ranker := build(4)
	first := openPath(t, build(2).save(t, dir, "first"), engine.Options{Threads: 1})
	e := openPath(t, ranker.save(t, dir, "ranker"), engine.Options{Threads: 1})
	row, err := first.Embed(t.Context(), peerTokens())
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Embed(t.Context(), peerTokens())
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	dense, bias := ranker.values(t, "cls.weight"), ranker.values(t, "cls.bias")
	out, want := ranker.values(t, "cls.output.weight"), float64(ranker.values(t, "cls.output.bias")[0])
	for i := range peerEmbd {
		sum := float64(bias[i])
		for j, x := range row {
			sum += float64(dense[i*peerEmbd+j]) * float64(x)
		}
		want += float64(out[i]) * math.Tanh(sum)
	}
	if math.Abs(float64(got[0])-want) > 1e-5 {
		t.Errorf("score %v, want %v", got[0], want)
	}
	if _, _, err := first.Rank(t.Context(), "a", "b"); !errors.Is(err, engine.ErrRank) {
		t.Errorf("a model without a classifier: %v", err)
	}
}

// TestRankElsewhere checks that rank pooling is rejected for architectures whose
// classifier is not supported.
func TestRankElsewhere(t *testing.T) {
	m := llamaMerged()
	m.kv["pooling_type"] = 4
	if _, err := engine.OpenModel(m.save(t, t.TempDir(), "llama")); err == nil {
		t.Error("a llama with the pooling of rerankers is opened")
	}
}

// values returns a tensor as floats.
func (m *maker) values(t testing.TB, name string) []float32 {
	t.Helper()
	for _, x := range m.tensors {
		if x.Name != name {
			continue
		}
		out := make([]float32, len(x.Data)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
		}
		return out
	}
	t.Fatalf("no tensor %s", name)
	return nil
}
