package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/llm"
	"godwit/engine/quant"
)

// damaged returns the model with some bytes of a tensor replaced.
func (m modelFile) damaged(name string, at int, bytes ...byte) modelFile {
	m.tensors = slices.Clone(m.tensors)
	for i := range m.tensors {
		if x := &m.tensors[i]; x.Name == name {
			x.Data = slices.Clone(x.Data)
			copy(x.Data[at:], bytes)
			return m
		}
	}
	panic("no tensor " + name)
}

// as returns the model with a tensor converted to another type.
func (m modelFile) as(t *testing.T, name string, typ dtype.Type) modelFile {
	t.Helper()
	m.tensors = slices.Clone(m.tensors)
	for i := range m.tensors {
		x := &m.tensors[i]
		if x.Name != name {
			continue
		}
		n := rowsOf(x.Shape) * x.Shape[0]
		v := make([]float32, n)
		data := make([]byte, n/typ.Elems()*typ.Bytes())
		if err := errors.Join(quant.Decode(x.Type, v, x.Data), quant.Encode(typ, data, v, nil)); err != nil {
			t.Fatal(err)
		}
		x.Type, x.Data = typ, data
		return m
	}
	panic("no tensor " + name)
}

var nan32 = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))

// first returns the error of opening a model, or else of its first answer.
func (m modelFile) first(t *testing.T, o engine.Options) error {
	t.Helper()
	o.Threads, o.Context, o.Parallel, o.UBatch, o.NoCalibration = 2, 64, 1, 16, true
	e, err := engine.Open(t.Context(), m.write(t), o)
	if err != nil {
		return err
	}
	defer e.Close()
	_, _, err = e.Answer(t.Context(), engine.Request{Tokens: m.prompt(), MaxTokens: 3, IgnoreEOG: true})
	return err
}

func (m modelFile) prompt() []llm.Token { return []llm.Token{1, 5, 9, 3} }

// TestDamagedWeights replaces the first or the last value of each F32 tensor of a model
// with NaN. There is no answer, and the error names the model and the tensor, both with
// repacked weights and with weights used from the file.
func TestDamagedWeights(t *testing.T) {
	for _, name := range []string{"llama-hd64", "gpt-oss-f32experts"} {
		m := tiny(t, name)
		for _, x := range m.tensors {
			if x.Type != dtype.F32 {
				continue
			}
			for _, at := range []int{0, len(x.Data) - 4} {
				for _, noRepack := range []bool{false, true} {
					if noRepack && (strings.Contains(x.Name, "exps") || x.Name == "token_embd.weight") {
						continue // an answer does not use every expert or token
					}
					err := m.damaged(x.Name, at, nan32...).first(t, engine.Options{NoRepack: noRepack})
					if !errors.Is(err, backend.ErrDamaged) || !strings.Contains(err.Error(), x.Name) || !strings.Contains(err.Error(), "m.gguf") {
						t.Errorf("%s, NaN at byte %d of %s, no repacking %v: %v", name, at, x.Name, noRepack, err)
					}
				}
			}
		}
	}
}

// TestDamagedScales damages a scale of every type that a matrix can be encoded in.
func TestDamagedScales(t *testing.T) {
	const name = "blk.0.attn_output.weight"
	for typ, at := range map[dtype.Type]int{
		dtype.F16: 0, dtype.BF16: 0, dtype.Q4_0: 0, dtype.Q4_1: 2, dtype.Q5_0: 0, dtype.Q5_1: 2, dtype.Q8_0: 0, dtype.IQ4_NL: 0,
		dtype.TQ3_1S: 2, dtype.TQ4_1S: 0, dtype.MXFP4: 0,
	} {
		m := tiny(t, "llama-hd64").as(t, name, typ)
		if err := m.first(t, engine.Options{}); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
		m = m.damaged(name, 3*typ.Bytes()+at, 0xff, 0xff)
		for _, o := range []engine.Options{{}, {NoRepack: true}} {
			if err := m.first(t, o); !errors.Is(err, backend.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("%s (%v)", name, typ)) {
				t.Errorf("%v, no repacking %v: %v", typ, o.NoRepack, err)
			}
		}
	}
}

// TestNotNumbers runs models with NaN weights, without the check for them, and a model
// whose finite weights cause overflows. The answer ends with an error that names the
// layer, with every kind of cache.
func TestNotNumbers(t *testing.T) {
	m := tiny(t, "llama-hd64")
	for _, tensor := range []string{"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_norm.weight"} {
		for layer := range 2 {
			name := fmt.Sprintf("blk.%d.%s", layer, tensor)
			for _, kind := range []string{"f32", "f16", "q8_0", "turbo3", "tbq4", "gw3"} {
				want, err := engine.ParseCacheTypes(kind, kind)
				if err != nil {
					t.Fatal(err)
				}
				err = m.damaged(name, 0, nan32...).first(t, engine.Options{Unchecked: true, Want: want})
				if !errors.Is(err, engine.ErrLogits) || !strings.Contains(err.Error(), fmt.Sprintf("layer %d ", layer)) || !strings.Contains(err.Error(), "m.gguf") {
					t.Errorf("NaN in %s with %s: %v", name, kind, err)
				}
			}
		}
	}
	for _, name := range []string{"output_norm.weight", "blk.1.ffn_down.weight"} {
		if err := m.damaged(name, 0, nan32...).first(t, engine.Options{Unchecked: true}); !errors.Is(err, engine.ErrLogits) || !strings.Contains(err.Error(), "after the attention of layer 1") {
			t.Errorf("NaN in %s: %v", name, err)
		}
	}
	big := binary.LittleEndian.AppendUint32(nil, math.Float32bits(3e38))
	if err := m.damaged("blk.0.attn_norm.weight", 0, big...).damaged("blk.0.attn_norm.weight", 4, big...).first(t, engine.Options{}); !errors.Is(err, engine.ErrLogits) || !strings.Contains(err.Error(), "layer 0") {
		t.Errorf("values that overflow: %v", err)
	}
}

// TestRouterNaN checks that NaN in a router is an error, because NaN would choose
// arbitrary experts.
func TestRouterNaN(t *testing.T) {
	m := tiny(t, "llama-moe")
	err := m.damaged("blk.1.ffn_gate_inp.weight", 0, nan32...).first(t, engine.Options{Unchecked: true})
	if !errors.Is(err, engine.ErrLogits) || !strings.Contains(err.Error(), "router of layer 1") {
		t.Error(err)
	}
}

// TestDamagedAdapter damages one half of an adapter, and then the other half.
func TestDamagedAdapter(t *testing.T) {
	base := llamaMerged().save(t, t.TempDir(), "base")
	for i := range 2 {
		a := adapterOf(llamaMerged(), "blk.0.attn_qkv.weight")
		a.tensors[i].Data = append(slices.Clone(nan32), a.tensors[i].Data[4:]...)
		path := a.save(t, t.TempDir(), "adapter")
		e, err := engine.Open(t.Context(), base, engine.Options{Context: 64, Threads: 1, LoRA: []engine.LoRA{{Path: path}}})
		if err == nil {
			t.Fatal(errors.Join(errors.New("no error"), e.Close()))
		}
		if !errors.Is(err, backend.ErrDamaged) || !strings.Contains(err.Error(), a.tensors[i].Name) {
			t.Errorf("%v, want %s in it", err, a.tensors[i].Name)
		}
	}
}
