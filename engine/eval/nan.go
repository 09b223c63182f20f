package eval

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine"
	"godwit/engine/llm"
)

// ErrNaN is the class of errors about models that give logits that are no
// numbers; they are reported and never averaged away.
var ErrNaN = errors.New("logits are not numbers")

// What NaN.Layer says beside the number of a layer.
const (
	unknown = -1 - iota // nobody looked
	packing             // with unpacked keys and values all is well
	none                // the logits of a second run are numbers
)

// NaN says where logits stopped being numbers.
type NaN struct {
	Chunk  int
	Tokens []llm.Token // of the chunk
	Pos    int         // first position whose logits, or keys, are no numbers
	Layer  int         // that made it; negative: not known
	TypeK  string
	TypeV  string
}

func (n *NaN) Error() string {
	at := fmt.Sprintf("%v: chunk %d, position %d", ErrNaN, n.Chunk, n.Pos)
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

// Unwrap makes the class known to errors.Is.
func (n *NaN) Unwrap() error { return ErrNaN }

// Opener opens the model under measurement with a pair of cache types and
// room for one sequence of so many tokens.
type Opener func(ctx context.Context, k, v string, context int) (*engine.Engine, error)

// Locate completes an error that has a NaN in it with the layer and the first
// token, by running the chunk again with an f32 cache. Other errors pass.
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
	found := &NaN{Chunk: n.Chunk, Tokens: n.Tokens, Pos: n.Pos, TypeK: typeK, TypeV: typeV}
	switch {
	case layer >= 0:
		found.Layer, found.Pos = layer, pos
	case typeK == "f32" && typeV == "f32":
		found.Layer = none
	default:
		found.Layer = packing
	}
	return found
}
