package kernel

import (
	"fmt"
	"unsafe"
)

// actBlock is 32 activations: x ≈ d·q.
type actBlock struct {
	q   [32]int8
	d   float32  // amax/127
	s   float32  // d · sum of q
	neg int32    // -Σq
	off [2]int32 // -32·Σq of the first and the second 16
}

// Acts holds rows of activations in the form that every packed type takes:
// two planes of blocks of 32 int8 with a float32 scale and the sum, the second
// one for what the first leaves over. Sixteen bits together: eight alone move
// the logits of real models by several times what their best candidates differ
// by.
type Acts struct {
	cols   int
	rows   int
	stride int // blocks a row
	blocks []actBlock
	fine   []actBlock
}

// NewActs makes room for rows of cols activations, cols a multiple of 32.
func NewActs(rows, cols int) *Acts {
	if rows < 0 || cols < 0 || cols%32 != 0 {
		panic(fmt.Sprintf("kernel: activations of %d rows × %d columns", rows, cols))
	}
	a := &Acts{}
	a.blocks = make([]actBlock, rows*(cols/32))
	a.fine = make([]actBlock, len(a.blocks))
	a.Reshape(rows, cols)
	return a
}

// Reshape gives the same memory another form; the contents are lost. It panics
// if rows × cols is more than the memory holds.
func (a *Acts) Reshape(rows, cols int) {
	if rows < 0 || cols < 0 || cols%32 != 0 || rows*(cols/32) > len(a.blocks) {
		panic(fmt.Sprintf("kernel: %d rows × %d columns do not fit %d blocks of activations", rows, cols, len(a.blocks)))
	}
	a.rows, a.cols, a.stride = rows, cols, cols/32
}

// Rows and Cols are the shape.
func (a *Acts) Rows() int { return a.rows }

// Cols is the number of activations in a row.
func (a *Acts) Cols() int { return a.cols }

// Quantize stores x, of Cols values, as the given row. The largest magnitude of each 32
// becomes ±127 and the rest round to nearest even. A block below 2⁻¹²⁰ is
// zero; one with a NaN or infinity makes the whole row's results NaN.
func (a *Acts) Quantize(row int, x []float32) {
	if len(x) != a.cols {
		panic(fmt.Sprintf("kernel: a row of %d activations for %d columns", len(x), a.cols))
	}
	first := a.row(row)
	quantize(first, x)
	second := a.second(row)
	var rest [32]float32
	for i := range first {
		b := &first[i]
		for j, v := range x[32*i : 32*i+32] {
			rest[j] = v - float32(b.d*float32(b.q[j]))
		}
		quantize(second[i:i+1], rest[:])
	}
}

func (a *Acts) row(i int) []actBlock {
	if i >= a.rows {
		panic(fmt.Sprintf("kernel: row %d of %d rows of activations", i, a.rows))
	}
	return a.blocks[i*a.stride : (i+1)*a.stride]
}

// second is the second plane of a row.
func (a *Acts) second(i int) []actBlock { return a.fine[i*a.stride : (i+1)*a.stride] }

func (a *Acts) ptr(row int) unsafe.Pointer {
	return unsafe.Pointer(&a.blocks[row*a.stride])
}
