package kernel

import (
	"fmt"
	"unsafe"
)

// actTop is the code of the largest magnitude of a block: 127 in the upper
// eight bits, 0 in the lower ones.
const actTop = 127 << 8

// actBlock holds 32 activations x ≈ d·q.
type actBlock struct {
	q   actCodes // |q| ≤ actTop, in the order of the machine's kernels
	d   float32  // amax/actTop
	s   float32  // d · sum of q
	neg int32    // -Σq
	off [2]int32 // -32·Σq of the first and the second 16
}

// Acts holds rows of activations in the form that every packed type reads:
// blocks of 32 codes of 16 bits, with a float32 scale and their sum. With eight
// bits, the error in the logits of real models would be several times the
// margin between the best candidates.
type Acts struct {
	cols   int
	rows   int
	stride int // blocks per row
	blocks []actBlock
}

// NewActs allocates rows of cols activations. cols must be a multiple of 32.
func NewActs(rows, cols int) *Acts {
	if rows < 0 || cols < 0 || cols%32 != 0 {
		panic(fmt.Sprintf("kernel: activations of %d rows × %d columns", rows, cols))
	}
	a := &Acts{}
	a.blocks = make([]actBlock, rows*(cols/32))
	a.Reshape(rows, cols)
	return a
}

// Reshape changes the number of rows and columns, and keeps the memory. The contents
// are lost. It panics if rows × cols exceeds the memory.
func (a *Acts) Reshape(rows, cols int) {
	if rows < 0 || cols < 0 || cols%32 != 0 || rows*(cols/32) > len(a.blocks) {
		panic(fmt.Sprintf("kernel: %d rows × %d columns do not fit %d blocks of activations", rows, cols, len(a.blocks)))
	}
	a.rows, a.cols, a.stride = rows, cols, cols/32
}

// Rows returns the number of rows.
func (a *Acts) Rows() int { return a.rows }

// Cols returns the number of activations in a row.
func (a *Acts) Cols() int { return a.cols }

// Quantize stores x, of Cols values, as the given row. The largest magnitude of each 32 values
// becomes ±32512, and the rest are rounded to nearest even. A block below 2⁻¹¹² is zero. A block
// with a NaN or infinity makes the results of the whole row NaN.
func (a *Acts) Quantize(row int, x []float32) {
	if len(x) != a.cols {
		panic(fmt.Sprintf("kernel: a row of %d activations for %d columns", len(x), a.cols))
	}
	quantize(a.row(row), x)
}

// QuantizePart stores x as part of a row, starting at index from. from and the
// length must be multiples of 32.
func (a *Acts) QuantizePart(row, from int, x []float32) {
	if from < 0 || from%32 != 0 || len(x)%32 != 0 || from+len(x) > a.cols {
		panic(fmt.Sprintf("kernel: %d activations from %d of %d columns", len(x), from, a.cols))
	}
	quantize(a.row(row)[from/32:(from+len(x))/32], x)
}

// Bytes returns the size of the rows.
func (a *Acts) Bytes() int { return len(a.blocks) * int(unsafe.Sizeof(actBlock{})) }

func (a *Acts) row(i int) []actBlock {
	if i >= a.rows {
		panic(fmt.Sprintf("kernel: row %d of %d rows of activations", i, a.rows))
	}
	return a.blocks[i*a.stride : (i+1)*a.stride]
}

func (a *Acts) ptr(row int) unsafe.Pointer {
	return unsafe.Pointer(&a.blocks[row*a.stride])
}
