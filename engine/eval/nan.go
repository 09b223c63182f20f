package eval

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine"
	"godwit/engine/llm"
)

// ErrNaN is the class of errors about models whose logits are NaN or infinite.
// Such logits are reported and never averaged.
var ErrNaN = errors.New("logits are not numbers")

// Values of NaN.Layer that are not the number of a layer.
const (
	unknown = -1 - iota // not determined
	packing             // the fault is in packing: with unpacked keys and values, everything is finite
	none                // the logits of a second run are finite
)

// NaN describes the first NaN or infinite value.
type NaN struct {
	Chunk  int
	Tokens []llm.Token // tokens of the chunk
	Pos    int         // first position with NaN or infinite logits or keys
	Layer  int         // layer that made the NaN; negative: unknown, packing or none
	Rows   bool        // the fault is in keys or values; the logits are finite
	source int         // if Rows: layer whose keys or values are not finite
	TypeK  string
	TypeV  string
}

func (n *NaN) Error() string {
	what := ErrNaN.Error()
	if n.Rows {
		what = "keys or values are not numbers"
	}
	at := fmt.Sprintf("%s: chunk %d, position %d", what, n.Chunk, n.Pos)
	if n.Pos < len(n.Tokens) {
		at += fmt.Sprintf(", token %d", n.Tokens[n.Pos])
	}
	switch n.Layer {
	case unknown:
		return at
	case packing:
		return at + fmt.Sprintf("; with an unpacked cache they are numbers, so the cache types %s and %s are the cause", n.TypeK, n.TypeV)
	case none:
		return at + "; in a second run they are numbers, so the device is the cause"
	}
	return at + fmt.Sprintf(", layer %d", n.Layer)
}

// Unwrap lets errors.Is find ErrNaN.
func (n *NaN) Unwrap() error { return ErrNaN }

// broken returns the first layer that has written more NaN or infinite keys or
// values than before, or -1. It also returns the current counts.
func broken(ctx context.Context, e *engine.Engine, before []int64) (layer int, now []int64, err error) {
	use, err := e.Usage(ctx)
	if err != nil {
		return -1, nil, err
	}
	layer = -1
	for i, s := range use.Counts {
		now = append(now, s.Broken)
		if layer < 0 && before != nil && s.Broken > before[i] {
			layer = i
		}
	}
	return layer, now, nil
}

// eachLogits calls e.EachLogits for a prompt, and also reports what the function
// numbers reports.
func eachLogits(ctx context.Context, e *engine.Engine, chunk int, tokens []llm.Token, want func(int) bool, f func(int, []float32) error) error {
	return numbers(ctx, e, chunk, tokens, func() error { return e.EachLogits(ctx, tokens, want, false, f) })
}

// numbers calls run over the tokens of a chunk. NaN or infinite keys and values
// are an error too, because attention reads them as zeros.
func numbers(ctx context.Context, e *engine.Engine, chunk int, tokens []llm.Token, run func() error) error {
	_, before, err := broken(ctx, e, nil)
	if err == nil {
		err = run()
	}
	if err != nil {
		return notNumbers(err)
	}
	layer, _, err := broken(ctx, e, before)
	if err == nil && layer >= 0 {
		return &NaN{Chunk: chunk, Tokens: tokens, Layer: unknown, Rows: true, source: layer}
	}
	return err
}

// notNumbers adds ErrNaN to an error that already names the layer.
func notNumbers(err error) error {
	var odd *engine.NotNumbers
	if errors.As(err, &odd) && !errors.Is(err, ErrNaN) {
		return fmt.Errorf("%w: %w", ErrNaN, err)
	}
	return err
}

// hidden checks whether the logits are finite with a packed cache, which cannot
// hold NaN. If they are, the fault is in the keys or values of a layer, and not in
// the layer's input.
func (n *NaN) hidden(ctx context.Context, open Opener) error {
	e, err := open(ctx, "q8_0", "q8_0", len(n.Tokens))
	if err != nil {
		return err
	}
	defer e.Close()
	var found *NaN
	err = eachLogits(ctx, e, n.Chunk, n.Tokens, func(pos int) bool { return pos == n.Pos }, func(pos int, row []float32) error {
		_, err := logSum(row)
		return err
	})
	switch {
	case errors.As(err, &found):
		n.Rows, n.source = found.Rows, found.source
	case err != nil && !errors.Is(err, ErrNaN):
		return err
	}
	return nil
}

// answer is e.Answer. It returns a NaN if no token can be chosen from the logits,
// or if keys or values are NaN.
func answer(ctx context.Context, e *engine.Engine, r engine.Request) (string, *engine.Result, error) {
	_, before, err := broken(ctx, e, nil)
	if err != nil {
		return "", nil, err
	}
	text, res, err := e.Answer(ctx, r)
	if odd := notNumbers(err); errors.Is(odd, ErrNaN) {
		return "", nil, odd
	}
	if err != nil && !errors.Is(err, engine.ErrLogits) {
		return "", nil, err
	}
	layer, _, askErr := broken(ctx, e, before)
	if err == nil && layer < 0 {
		return text, res, askErr
	}
	tokens, encodeErr := e.Encode(ctx, &r)
	if encodeErr != nil {
		return "", nil, errors.Join(err, encodeErr)
	}
	if err == nil {
		return "", nil, &NaN{Tokens: append(tokens, res.Tokens...), Layer: unknown, Rows: true, source: layer}
	}
	tokens = append(tokens, said(ctx, e, r)...)
	return "", nil, &NaN{Tokens: tokens, Pos: len(tokens) - 1, Layer: unknown}
}

// said returns the tokens that are generated before a request fails.
func said(ctx context.Context, e *engine.Engine, r engine.Request) (tokens []llm.Token) {
	for most, n := r.MaxTokens, 1; n < most; n++ {
		r.MaxTokens = n
		_, res, err := e.Answer(ctx, r)
		if err != nil {
			break
		}
		tokens = res.Tokens
	}
	return tokens
}

// Opener opens the model under measurement with a pair of cache types and room
// for one sequence of context tokens.
type Opener func(ctx context.Context, k, v string, context int) (*engine.Engine, error)

// Locate adds the layer and the first bad position to an error that contains a NaN,
// by running the chunk again with an f32 cache. It returns other errors unchanged.
func Locate(ctx context.Context, open Opener, err error, typeK, typeV string) error {
	var n *NaN
	if !errors.As(err, &n) || n.Layer != unknown {
		return err
	}
	e, openErr := open(ctx, "f32", "f32", len(n.Tokens))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	defer e.Close()
	layer, pos, findErr := e.FirstNaN(ctx, n.Tokens)
	if findErr != nil {
		return errors.Join(err, findErr)
	}
	found := &NaN{Chunk: n.Chunk, Tokens: n.Tokens, Pos: n.Pos, Rows: n.Rows, source: n.source, TypeK: typeK, TypeV: typeV}
	if !n.Rows {
		if err := found.hidden(ctx, open); err != nil {
			return errors.Join(n, err)
		}
	}
	switch {
	case found.Rows:
		found.Layer, found.Pos = found.source, min(pos, len(n.Tokens)-1)
	case layer >= 0:
		found.Layer, found.Pos = layer, pos
	case typeK == "f32" && typeV == "f32":
		found.Layer = none
	default:
		found.Layer = packing
	}
	return found
}
