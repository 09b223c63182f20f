package engine

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/model"
)

// maxEncoded bounds the length of an encoder's text, because the encoder's keys and
// values are constants in the decoder's plan.
const maxEncoded = 1 << 14

// encode runs the encoder of an encoder-decoder model over its text, on the CPU.
func (x *opened) encode(ctx context.Context, o Options) error {
	enc, ok := x.model.model.(model.TwoTexts)
	if len(o.EncoderTokens) == 0 {
		return nil
	}
	if !ok {
		return fmt.Errorf("%s: %s has no encoder, so it takes no encoder tokens", x.model.Path, x.model.Config().Arch)
	}
	if n := len(o.EncoderTokens); n > maxEncoded {
		return fmt.Errorf("the encoder's text has %d tokens; the limit is %d", n, maxEncoded)
	}
	for i, t := range o.EncoderTokens {
		if t < 0 || int(t) >= x.model.Config().Vocab {
			return fmt.Errorf("encoder token %d is %d, but the vocabulary has %d tokens", i, t, x.model.Config().Vocab)
		}
	}
	g := graph.NewBuilder()
	plan, err := g.Finish(enc.Encode(g, model.Inputs{Context: len(o.EncoderTokens)}))
	if err != nil {
		return err
	}
	rows, err := x.model.once(ctx, plan, o)
	if err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	x.model.encoded = &model.Encoded{Rows: rows, Count: len(o.EncoderTokens)}
	return nil
}

// once runs a plan over the encoder's text and returns a row for each token.
func (m *Model) once(ctx context.Context, plan *graph.Plan, o Options) (rows []float32, err error) {
	n := len(o.EncoderTokens)
	zero := 0
	l, err := layout.Resolve(layout.Want{K: kv.F32, V: kv.F32}, layerInfos(plan, m.Config().Layers, layout.Signals{}),
		layout.Settings{Cells: n, Seqs: 1, UBatch: n, Policy: &zero})
	if err != nil {
		return nil, err
	}
	sizes := backend.Sizes{Rows: n, Outputs: n, Slots: 1}
	for _, g := range l.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	b, err := cpu.Driver{}.Open(0, o.backend())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	prog, err := b.Compile(ctx, plan, &l, sizes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	cache, err := pages.New(&l, pages.Options{})
	if err != nil {
		return nil, err
	}
	if err := cache.Extend(0, n); err != nil {
		return nil, err
	}
	batch := &llm.Batch{Tokens: o.EncoderTokens, Spans: []llm.Span{{Rows: n, Len: n}}}
	for i := range n {
		batch.Pos, batch.Outputs = append(batch.Pos, int32(i)), append(batch.Outputs, int32(i))
	}
	batch.Logits = make([]float32, n*plan.Values[plan.Output].Width)
	cache.Fill(batch)
	return batch.Logits, prog.Run(ctx, batch)
}
