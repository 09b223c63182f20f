package calibrate

import (
	"context"
	"errors"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/sched"
)

// Equalise reads as much of the built-in text as q needs. It returns the table of each layer and KV
// head, and the number of heads that need one. A layer whose channels are already equal has nil.
func (m *Model) Equalise(ctx context.Context, q layout.InnerQ, o backend.Options) (tables [][]kv.Channels, heads int, err error) {
	tokens, err := m.builtinTokens(builtinText)
	if err != nil {
		return nil, 0, err
	}
	layers, err := m.Layers(m.Config.Context)
	if err != nil {
		return nil, 0, err
	}
	tokens = tokens[:min(len(tokens), q.Tokens(layers), calibrationTokens, max(m.Config.Context, 1))]
	for i := range layers {
		layers[i].Rotary = layout.Rotary{} // no RoPE: keys are measured as attention reads them
	}
	stats := newHeadStats(layers)
	stats.from = 0 // every key counts
	b, err := cpu.Driver{Heads: stats.add}.Open(0, o)
	if err != nil {
		return nil, 0, err
	}
	err = m.try(ctx, b, len(tokens), DefaultRows, layout.Settings{}, func(t *trial) error { return t.run(sched.Job{Prompt: tokens}) })
	if err = errors.Join(err, b.Close()); err != nil {
		return nil, 0, err
	}
	tables = make([][]kv.Channels, len(layers))
	for i, list := range stats.heads {
		uneven := 0
		table := make([]kv.Channels, len(list))
		for h, s := range list {
			var ok bool
			if table[h], ok = s.Equalise(q); ok {
				uneven++
			} else {
				for c := range table[h].Gain {
					table[h].Gain[c] = 1
				}
			}
		}
		if uneven > 0 {
			tables[i] = table
		}
		heads += uneven
	}
	return tables, heads, nil
}
