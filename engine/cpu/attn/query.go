package attn

import "math"

// panel is the number of queries that a kernel processes at once.
const panel = 6

// Queries are the query heads that share a KV head, prepared for a key form.
type Queries struct {
	N        int // number of queries
	form     *Form
	rot, res []float32 // one query in the rotated domain
	segments []prepared
}

// prepared holds the queries in the layout that a segment reads.
type prepared struct {
	rows, res   []float32  // [n][values]: the queries unchanged
	coef, signs []float32  // [panel][chunk of 64 values][6][64]: float arithmetic
	codes, bits operand    // int8 arithmetic
	halves      []prepared // queries for asymmetric pages; see twin
	rest        []float32  // rounding error of one query, or one query in trellis steps
	sums        []float32  // [n][block]: sum of the query's values, for affine forms
}

// operand holds queries in int8, with one scale per block. A query has one row.
// It has two if keys are so precise that its rounding error would matter. The
// second row is then that error.
type operand struct {
	q      []int8    // [panel][chunk of 32 values][6][32]
	scale  []float32 // [panel][block][6]
	init   []int32   // [panel][block][6]: initial value of an integer sum
	values int
	blocks int
	per    int // rows per query
}

// NewQueries allocates room for n queries of a form.
func (f *Form) NewQueries(n int) *Queries {
	q := &Queries{form: f, rot: make([]float32, f.Padded)}
	if f.Type.HasResidual() {
		q.res = make([]float32, f.Padded)
	}
	for _, p := range f.segments {
		q.segments = append(q.segments, p.room(n))
	}
	return q
}

// Set prepares query i.
func (q *Queries) Set(i int, x []float32) {
	for j := range q.form.shapes {
		g := &q.form.shapes[j]
		n := g.Blocks * g.Form.Elems
		var res []float32
		if q.res != nil {
			res = q.res[g.Lane : g.Lane+n]
		}
		rotateQuery(g, q.rot[g.Lane:g.Lane+n], res, x)
		q.form.segments[j].prepare(&q.segments[j], i, q.rot, q.res)
	}
}

// Take prepares query i from the preparation for another form in the same
// rotated domain.
func (q *Queries) Take(i int, from *Queries) {
	for j, p := range q.form.segments {
		p.prepare(&q.segments[j], i, from.rot, nil)
	}
}

// panels returns the number of panels for n queries.
func panels(n int) int { return (n + panel - 1) / panel }

// chunks64 returns the number of chunks of 64 values.
func chunks64(values int) int { return (values + 63) / 64 }

// newCoef allocates room for n queries in float arithmetic.
func newCoef(n, values int) []float32 {
	return make([]float32, panels(n)*chunks64(values)*panel*64)
}

// setCoef stores the values of query i.
func setCoef(coef []float32, i int, x []float32) {
	chunks := chunks64(len(x))
	at := (i/panel*chunks*panel + i%panel) * 64
	for len(x) > 0 {
		n := copy(coef[at:at+64], x)
		clear(coef[at+n : at+64])
		x = x[n:]
		at += panel * 64
	}
}

func newOperand(n, values, blocks, per int) operand {
	n = panels(n * per)
	return operand{
		q:      make([]int8, n*values*panel),
		scale:  make([]float32, n*blocks*panel),
		init:   make([]int32, n*blocks*panel),
		values: values, blocks: blocks, per: per,
	}
}

// set rounds row i to int8, block by block. Stored levels are unit·(u - zero)
// for an unsigned byte u, so the sums start at -zero·Σq. NaN counts as 0 in the
// rounded query. If rest is not nil, it receives the rounding error.
func (o *operand) set(i int, x []float32, unit float32, zero int32, rest []float32) {
	elems := o.values / o.blocks
	group, lane := i/panel, i%panel
	for b := range o.blocks {
		v := x[b*elems : (b+1)*elems]
		amax := maxAbs(v)
		var inv float32
		if amax >= tiny {
			inv = 127 / amax
		}
		sum := roundInt8(o.q[(group*o.values+b*elems)*panel+lane*32:], v, inv)
		at := (group*o.blocks+b)*panel + lane
		o.scale[at] = amax / 127 * unit
		o.init[at] = -zero * sum
		if rest != nil {
			remainder(rest[b*elems:(b+1)*elems], v, inv, amax/127)
		}
	}
}

func remainderGeneric(dst, x []float32, inv, step float32) {
	for i, v := range x {
		dst[i] = v - float32(float32(math.RoundToEven(float64(float32(v*inv))))*step)
	}
}

// sum returns the sum of the rounded values of block b of row i.
func (o *operand) sum(i, b int, l *levels) float32 {
	at := (i/panel*o.blocks+b)*panel + i%panel
	return float32(-o.init[at]/l.zero) * (o.scale[at] / l.unit)
}

// tiny is the magnitude below which the inverse of an int8 scale would not be
// finite. Smaller values count as zero.
const tiny = 1e-35

func maxAbsGeneric(x []float32) (m float32) {
	for _, v := range x {
		m = max(m, nanZero(float32(math.Abs(float64(v)))))
	}
	return m
}

func nanZero(v float32) float32 {
	if v != v {
		return 0
	}
	return v
}

// roundInt8Generic stores x·inv, clamped to 127 and rounded to even. Each group
// of 32 values goes to its row of a panel. It returns the sum.
func roundInt8Generic(dst []int8, x []float32, inv float32) (sum int32) {
	for i, v := range x {
		r := int32(math.RoundToEven(float64(nanZero(float32(v * inv)))))
		dst[i/32*panel*32+i%32] = int8(r)
		sum += r
	}
	return sum
}

func quotientsGeneric(dst, x, y []float32) {
	y = y[:len(dst)]
	for i, v := range x[:len(dst)] {
		dst[i] = v / y[i]
	}
}
