// Package graph records a model's forward pass as data.
//
// A Builder turns calls into nodes; the resulting Plan is compiled once by a
// backend and replayed for every batch. Every value is a matrix of float32 with
// a fixed width; its number of rows is the number of rows of the batch or,
// after Gather, of the outputs.
//
//	b := graph.NewBuilder()
//	x := b.Embed(tok)
//	x = b.Norm(x, graph.RMS, norm, nil, 1e-5, 0)
//	plan, err := b.Finish(b.Linear(x, output, nil))
package graph

import (
	"errors"
	"fmt"
	"slices"

	"godwit/engine/dtype"
)

// ErrShape is wrapped by every error about operands of incompatible shapes.
var ErrShape = errors.New("shapes do not fit")

// Weight is a constant tensor in a format of engine/quant. Shape is in GGUF
// order: Shape[0] is the length of a row.
type Weight struct {
	Name  string
	Type  dtype.Type
	Shape []int
	Data  []byte
	// Scale multiplies the products of the whole matrix (one value) or of each
	// expert. nil means 1.
	Scale *Weight
}

// Cols is the length of a row.
func (w *Weight) Cols() int { return w.Shape[0] }

// Rows is the number of rows of one matrix, the second dimension.
func (w *Weight) Rows() int {
	if len(w.Shape) < 2 {
		return 1
	}
	return w.Shape[1]
}

// Mats is the number of matrices stacked in the tensor: experts or heads.
func (w *Weight) Mats() int {
	n := 1
	for _, d := range w.Shape[min(2, len(w.Shape)):] {
		n *= d
	}
	return n
}

// Elems is the number of values.
func (w *Weight) Elems() int {
	n := 1
	for _, d := range w.Shape {
		n *= d
	}
	return n
}

// Value names the result of a node; None stands for a missing operand.
type Value int

// None is a missing operand.
const None Value = -1

// RowSet says how many rows a value has.
type RowSet uint8

// The two numbers of rows that a plan leaves open.
const (
	BatchRows  RowSet = iota // one row per token of the batch
	OutputRows               // one row per output
)

// Info describes a value.
type Info struct {
	Width int
	Rows  RowSet
}

// Node is one step of a plan.
type Node struct {
	Op  Op
	In  []Value
	Out Value
}

// State is recurrent memory that a layer keeps for each sequence. Size is in
// float32s.
type State struct {
	Layer int
	Size  int
}

// Plan is a recorded forward pass. Nodes are in execution order.
type Plan struct {
	Nodes  []Node
	Values []Info
	States []State // ops refer to a state by its index
	Layers []int   // index of the first node of each layer
	Output Value
}

// Builder records a plan. It keeps the first error, and Finish returns it.
type Builder struct {
	plan     Plan
	err      error
	adapters map[string][]Adapter
	adapted  map[string]bool // weights with adapters in the plan
}

// Adapter is a low-rank addition to a named matrix: W·x becomes W·x +
// Scale·B·(A·x). A is [cols, rank] and B is [rank, rows]. For experts, A and B have
// one matrix per expert. For an embedding, A is [rank, rows], B is [rank, cols],
// and row t becomes W[t] + Scale·B·A[t]. Source: arXiv 2106.09685.
type Adapter struct {
	A, B  *Weight
	Scale float32
}

// lookup reports whether the adapter has the shape of an embedding's adapter.
func (a *Adapter) lookup(w *Weight) bool {
	return a.A.Rows() == w.Rows() && a.A.Cols() == a.B.Cols() && a.B.Rows() == w.Cols()
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder { return &Builder{} }

// Adapt adds an adapter to all later products with the named weight.
func (b *Builder) Adapt(weight string, a Adapter) {
	if b.adapters == nil {
		b.adapters, b.adapted = make(map[string][]Adapter), make(map[string]bool)
	}
	b.adapters[weight] = append(b.adapters[weight], a)
}

// Unadapted lists, in alphabetical order, the weights with adapters that no
// product of the plan has used so far.
func (b *Builder) Unadapted() []string {
	var out []string
	for name := range b.adapters {
		if !b.adapted[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Layer starts the next layer, to which the following nodes belong.
func (b *Builder) Layer() {
	b.plan.Layers = append(b.plan.Layers, len(b.plan.Nodes))
}

// Finish returns the plan whose result is out.
func (b *Builder) Finish(out Value) (*Plan, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.plan.Output = out
	return &b.plan, nil
}

// Width returns the width of v.
func (b *Builder) Width(v Value) int {
	if b.err != nil || v < 0 {
		return 0
	}
	return b.plan.Values[v].Width
}

func (b *Builder) fail(op string, format string, args ...any) Value {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s: %s", ErrShape, op, fmt.Sprintf(format, args...))
	}
	return 0
}

// add appends a node whose result is width wide and has the rows of its
// first operand.
func (b *Builder) add(op Op, width int, in ...Value) Value {
	if b.err != nil {
		return 0
	}
	rows := BatchRows
	if len(in) > 0 {
		rows = b.plan.Values[in[0]].Rows
	}
	for _, v := range in {
		if v != None && b.plan.Values[v].Rows != rows {
			return b.fail(fmt.Sprintf("%T", op), "operands with different numbers of rows")
		}
	}
	return b.addRows(op, Info{width, rows}, in...)
}

// maxWidth limits the widths that a hostile file can claim, because a sparse file
// can claim weights that take no disk space. The largest known width is 262,144
// logits.
const maxWidth = 1 << 22

func (b *Builder) addRows(op Op, info Info, in ...Value) Value {
	if info.Width <= 0 || info.Width > maxWidth {
		return b.fail(fmt.Sprintf("%T", op), "width %d", info.Width)
	}
	out := Value(len(b.plan.Values))
	b.plan.Values = append(b.plan.Values, info)
	b.plan.Nodes = append(b.plan.Nodes, Node{Op: op, In: in, Out: out})
	return out
}

// state reserves recurrent memory for a layer and returns its number.
func (b *Builder) state(layer, size int) int {
	b.plan.States = append(b.plan.States, State{layer, size})
	return len(b.plan.States) - 1
}
