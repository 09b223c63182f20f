package engine

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/kv"
	"godwit/engine/sched"
)

// equaliseKeys returns the settings of the cache with the tables of InnerQ, where
// they are asked for. They are measured before the cache is laid out, on keys of
// the built-in text, so that they do not depend on the first request.
func (x *opened) equaliseKeys(ctx context.Context, o *Options, s kv.Settings) (kv.Settings, error) {
	if s.InnerQ.Groups == 0 || s.Equalised != nil || x.model.Config().Embedding {
		return s, nil
	}
	with := *o
	with.KV = s
	want, err := x.model.anyLayer(with, func(y *kv.LayerLayout) bool { return y.K.Equalised })
	if err != nil || !want {
		return s, err
	}
	tables, heads, err := x.model.equalise(ctx, s.InnerQ, o)
	if err != nil {
		return s, fmt.Errorf("innerq: %w", err)
	}
	s.Equalised = tables
	x.log.Info(fmt.Sprintf("kv: InnerQ evens out the channels of %d KV heads", heads), "model", x.model.Config().Name)
	return s, nil
}

// equalise reads as much of the built-in text as q asks for and returns a table for
// each layer and KV head, nil where the channels are even, and the number of
// heads that have one.
func (m *Model) equalise(ctx context.Context, q kv.InnerQ, o *Options) (tables [][]kv.Channels, heads int, err error) {
	tokens, err := m.builtinTokens(builtinText)
	if err != nil {
		return nil, 0, err
	}
	layers, err := m.Layers(m.Config().Context)
	if err != nil {
		return nil, 0, err
	}
	tokens = tokens[:min(len(tokens), q.Tokens(layers), calibrationTokens, max(m.Config().Context, 1))]
	for i := range layers {
		layers[i].Rotary = kv.Rotary{} // keys count as they are
	}
	stats := newHeadStats(layers)
	stats.from = 0 // every key counts
	b, err := cpu.Driver{Heads: stats.add}.Open(0, backend.Options{Threads: o.Threads, NoRepack: o.NoRepack})
	if err != nil {
		return nil, 0, err
	}
	err = m.try(ctx, b, len(tokens), DefaultUBatch, kv.Settings{}, func(t *trial) error { return t.run(sched.Job{Prompt: tokens}) })
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
