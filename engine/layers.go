package engine

import (
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
)

// layerInfos reads from the plan what every layer stores, so that the cache matches the
// attention that will run.
func layerInfos(plan *graph.Plan, layers int, sig layout.Signals) []layout.LayerInfo {
	out := make([]layout.LayerInfo, layers)
	for i := range out {
		out[i] = layout.LayerInfo{Layer: i, Share: -1}
	}
	turns := rotaries(plan, layers)
	for i := range out {
		if turns == nil {
			out[i].Rotary.Opaque = true
		} else {
			out[i].Rotary = turns[i]
		}
	}
	for _, n := range plan.Nodes {
		var a graph.Attention
		switch op := n.Op.(type) {
		case graph.Attend:
			a = op.Attention
		case graph.Index:
			a = op.Attention
		default:
			continue
		}
		l := &out[a.Layer]
		if n.In[1] == graph.None {
			l.Share = a.Share
		}
		l.Cached = true
		l.Heads, l.KVHeads, l.HeadDimK, l.HeadDimV = a.Heads, a.KVHeads, a.DimK, a.DimV
		l.Window, l.MLA, l.RopeBase, l.Bidirectional = a.Window, a.MLA, a.RopeBase, a.Bidirectional
		if a.Bidirectional {
			l.Window = 0 // rows also attend to later keys
		}
		if _, ok := n.Op.(graph.Index); !ok { // the file's head sizes are those of attention, not of an index
			l.Signals = sig
		}
		if a.Window > 0 && sig.KeyLengthSWA > 0 {
			l.Signals.KeyLength = sig.KeyLengthSWA
		}
	}
	for _, s := range plan.States {
		out[s.Layer].StateBytes += int64(4 * s.Size)
	}
	return out
}

// signals reads the file's keys about head sizes.
func signals(f *gguf.File, layers int) layout.Signals {
	get := func(key string) int {
		v, _ := f.KV.Uint(f.Arch() + "." + key)
		return int(min(v, 1<<20))
	}
	heads := get("attention.head_count")
	if v, ok := f.KV.Value(f.Arch() + ".attention.head_count"); ok && v.IsArray {
		list, _ := v.First(layers).Ints()
		for _, n := range list {
			heads = max(heads, int(n))
		}
	}
	return layout.Signals{
		KeyLength:    get("attention.key_length"),
		KeyLengthMLA: get("attention.key_length_mla"),
		KeyLengthSWA: get("attention.key_length_swa"),
		ValueLength:  get("attention.value_length"),
		Embd:         get("embedding_length"),
		Heads:        heads,
	}
}
