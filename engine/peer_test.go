package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// peerOut is a folder for the models of peerModels. llama.cpp reads them there to
// compute testdata/peer.json again.
var peerOut = flag.String("peer.out", "", "folder to write the models of TestPeerModels to")

// maker builds a small model with random weights.
type maker struct {
	arch    string
	kv      map[string]any
	tensors []gguf.Tensor
	state   uint64
}

const (
	peerEmbd  = 32
	peerVocab = 96
	peerHead  = 16 // values of a head; by default, 2 query heads share 1 KV head
	peerFeed  = 48
)

// newMaker starts a model with the keys and tensors that every architecture
// has.
func newMaker(arch string, layers int, rest map[string]any) *maker {
	m := &maker{arch: arch, state: 1, kv: map[string]any{
		"context_length": 512, "embedding_length": peerEmbd, "block_count": layers, "feed_forward_length": peerFeed,
		"attention.head_count": 2, "attention.head_count_kv": 1, "vocab_size": peerVocab,
	}}
	for _, c := range []byte(arch) {
		m.state = m.state*31 + uint64(c)
	}
	maps.Copy(m.kv, rest)
	m.add("token_embd.weight", peerEmbd, peerVocab)
	return m
}

// float returns the next value of a fixed sequence, from -1 to 1.
func (m *maker) float() float32 {
	m.state = m.state*6364136223846793005 + 1442695040888963407
	return float32(int32(m.state>>32)) * 0x1p-31
}

// add adds a tensor. Matrices are scaled to preserve the length of vectors. Values of
// vectors are around 1 if the name ends in .weight or .scale, and around 0 otherwise.
func (m *maker) add(name string, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape}
	for range n {
		v := m.float()
		switch {
		case len(shape) > 1:
			v *= float32(math.Sqrt(3 / float64(shape[0])))
		case filepath.Ext(name) == ".weight" || filepath.Ext(name) == ".scale":
			v = 1 + v/2
		default:
			v /= 3
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	m.tensors = append(m.tensors, t)
}

func (m *maker) layer(i int, name string, shape ...int) {
	m.add(fmt.Sprintf("blk.%d.%s", i, name), shape...)
}

// norms adds vectors as wide as the embedding.
func (m *maker) norms(i int, names ...string) {
	for _, n := range names {
		m.layer(i, n, peerEmbd)
	}
}

// attn adds separate projections for 2 query heads and kv KV heads.
func (m *maker) attn(i, kv int, bias bool) {
	for _, p := range []struct {
		name string
		rows int
	}{{"attn_q", 2 * peerHead}, {"attn_k", kv * peerHead}, {"attn_v", kv * peerHead}} {
		m.layer(i, p.name+".weight", peerEmbd, p.rows)
		if bias {
			m.layer(i, p.name+".bias", p.rows)
		}
	}
	m.layer(i, "attn_output.weight", 2*peerHead, peerEmbd)
}

// ffn adds a gated block; suffix is "" or "_shexp".
func (m *maker) ffn(i, n int, suffix string) {
	m.layer(i, "ffn_gate"+suffix+".weight", peerEmbd, n)
	m.layer(i, "ffn_up"+suffix+".weight", peerEmbd, n)
	m.layer(i, "ffn_down"+suffix+".weight", n, peerEmbd)
}

// moe adds a router and gated experts.
func (m *maker) moe(i, n, experts int) {
	m.layer(i, "ffn_gate_inp.weight", peerEmbd, experts)
	m.layer(i, "ffn_gate_exps.weight", peerEmbd, n, experts)
	m.layer(i, "ffn_up_exps.weight", peerEmbd, n, experts)
	m.layer(i, "ffn_down_exps.weight", n, peerEmbd, experts)
}

// file returns the complete model.
func (m *maker) file(t testing.TB) []byte {
	t.Helper()
	list := []gguf.KV{
		{Key: "general.architecture", Value: m.arch},
		{Key: "general.name", Value: "peer " + m.arch},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
	}
	for _, k := range slices.Sorted(maps.Keys(m.kv)) {
		key, v := m.arch+"."+k, m.kv[k]
		if space, _, _ := strings.Cut(k, "."); space == "tokenizer" || space == "general" || space == "adapter" {
			key = k
		}
		switch x := v.(type) {
		case int:
			v = uint32(x)
		case float64:
			v = float32(x)
		case []int:
			u := make([]uint32, len(x))
			for i := range x {
				u[i] = uint32(x[i])
			}
			v = u
		}
		list = append(list, gguf.KV{Key: key, Value: v})
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, list, m.tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// save writes the model to a file with the given name.
func (m *maker) save(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name+".gguf")
	if err := os.WriteFile(path, m.file(t), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// peerTokens is the prompt of every model: 40 tokens, which is less than a page and
// more than the sliding windows of the models.
func peerTokens() []llm.Token {
	out := make([]llm.Token, 40)
	for i := range out {
		out[i] = llm.Token((i*i*7 + 3*i + 5) % peerVocab)
	}
	return out
}

// TestPeerModels compares models with llama.cpp, for architectures and variants that
// the golden data lacks. See testdata/README.md.
func TestPeerModels(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "peer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]float32
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	list := peerModels()
	for name := range want {
		if list[name] == nil {
			t.Errorf("testdata/peer.json has %s, which no test makes", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t.Run(name, func(t *testing.T) {
			m := list[name]()
			dir := t.TempDir()
			if *peerOut != "" {
				dir = *peerOut
			}
			path := m.save(t, dir, name)
			var lora []engine.LoRA
			if make := peerAdapters[name]; make != nil {
				lora = []engine.LoRA{{Path: make(m).save(t, dir, name+".adapter"), Scale: 0.5}}
			}
			for _, o := range []engine.Options{{UBatch: 64}, {UBatch: 16, NoRepack: true}} {
				o.LoRA = lora
				o.Context, o.Parallel, o.Threads, o.Want = 64, 1, 1, layout.Want{K: kv.F32, V: kv.F32}
				checkPeer(t, openPath(t, path, o), strings.HasSuffix(name, "-embed"), want[name])
			}
		})
	}
}

// peerBound is the difference that rounding explains. The file has six digits of
// values up to 10, and float32 sums are in another order in up to 64 layers.
const peerBound = 5e-5

// checkPeer compares logits or the pooled row.
func checkPeer(t *testing.T, e *engine.Engine, embed bool, want []float32) {
	t.Helper()
	tokens := peerTokens()
	var got []float32
	if e.Config().Embedding || embed {
		var err error
		if got, err = e.Embed(t.Context(), tokens); err != nil {
			t.Fatal(err)
		}
	} else {
		got = logits(t, e, tokens, []int{0, 5, 39}, false)
		if most, _ := distance(got, logits(t, e, tokens, []int{0, 5, 39}, true)); most > peerBound {
			t.Errorf("token by token is %g away from prefill", most)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d values, the peer gave %d", len(got), len(want))
	}
	if most, rms := distance(got, want); most > peerBound || most != most {
		t.Errorf("largest distance %g, want at most %g (rms %g)", most, peerBound, rms)
	}
}

// negate makes the last tensor negative, like decay rates.
func (m *maker) negate() {
	data := m.tensors[len(m.tensors)-1].Data
	for i := 3; i < len(data); i += 4 {
		data[i] |= 0x80
	}
}
