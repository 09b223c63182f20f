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

// evenKeys measures the tables of InnerQ, where they are asked for, before the
// cache is laid out: on keys of the built-in text, so that they do not depend
// on what the first request happens to say.
func (e *Engine) evenKeys(ctx context.Context) error {
	q := e.o.KV.InnerQ
	if q.Groups == 0 || e.o.KV.Even != nil || e.Config().Embedding {
		return nil
	}
	if want, err := e.evens(); err != nil || !want {
		return err
	}
	tables, heads, err := e.even(ctx, q)
	if err != nil {
		return fmt.Errorf("innerq: %w", err)
	}
	e.o.KV.Even = tables
	e.log.Info(fmt.Sprintf("kv: InnerQ evens out the channels of %d KV heads", heads), "model", e.Config().Name)
	return nil
}

// evens reports whether a layer of the layout takes a table.
func (e *Engine) evens() (bool, error) {
	l, err := e.Layout(min(e.Config().Context, MinContext), e.o.Want, e.o.Preset, e.o.KV)
	if err != nil {
		return false, err
	}
	for i := range l.Layers {
		if l.Layers[i].K.Even {
			return true, nil
		}
	}
	return false, nil
}

// even reads as much of the built-in text as q asks for and returns a table for
// each layer and KV head, nil where the channels are even, and the number of
// heads that have one.
func (e *Engine) even(ctx context.Context, q kv.InnerQ) (tables [][]kv.Channels, heads int, err error) {
	tokens, err := e.builtinTokens(builtinText)
	if err != nil {
		return nil, 0, err
	}
	layers, err := e.Layers(e.Config().Context)
	if err != nil {
		return nil, 0, err
	}
	tokens = tokens[:min(len(tokens), q.Tokens(layers), calibrationTokens, max(e.Config().Context, 1))]
	for i := range layers {
		layers[i].Rotary = kv.Rotary{} // keys count as they are
	}
	stats := newHeadStats(layers)
	stats.from = 0 // every key counts
	b, err := cpu.Driver{Heads: stats.add}.Open(0, backend.Options{Threads: e.o.Threads, NoRepack: e.o.NoRepack})
	if err != nil {
		return nil, 0, err
	}
	err = e.try(ctx, b, len(tokens), DefaultUBatch, kv.Settings{}, func(t *trial) error { return t.run(sched.Job{Prompt: tokens}) })
	if err = errors.Join(err, b.Close()); err != nil {
		return nil, 0, err
	}
	tables = make([][]kv.Channels, len(layers))
	for i, list := range stats.heads {
		uneven := 0
		table := make([]kv.Channels, len(list))
		for h, s := range list {
			var ok bool
			if table[h], ok = s.Even(q); ok {
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
