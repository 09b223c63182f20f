package cpu

import (
	"unsafe"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
	"godwit/engine/graph"
)

// selfRows is the number of query rows per task of SelfAttend. It is large
// enough to reuse the packed keys in cache, and small enough for their scores
// to stay there.
const selfRows = 32

// selfRun is a run of rows that see each other, and the offsets of the packed
// keys and values of its heads.
type selfRun struct{ from, to, keys, values int }

// selfTask is some rows of one head of a run.
type selfTask struct{ run, head, first, rows int }

// selfAttention is a SelfAttend op. The keys and the transposed values of each
// head are packed as matrices, so that scores and sums are matrix products.
type selfAttention struct {
	graph.SelfAttend
	p            *program
	q, k, v, out graph.Value
	runs         []selfRun
	tasks        []selfTask
	*selfMemory
}

// selfMemory is the memory that all SelfAttend ops of a program share, because
// they run one after another.
type selfMemory struct {
	keys, values []float32     // packed
	workers      []*selfWorker // indexed by worker
}

// selfWorker is the memory of one worker.
type selfWorker struct {
	matrix  []float32 // a head's keys or values before they are packed
	queries []float32 // [selfRows, dim], scaled
	scores  []float32 // [selfRows, rows]
}

// selfAttend adds the stages of a SelfAttend op.
func (c *compiler) selfAttend(n graph.Node, op graph.SelfAttend) {
	p := c.p
	if p.self == nil {
		p.self = &selfMemory{}
		for range p.backend.pool.workers {
			p.self.workers = append(p.self.workers, &selfWorker{})
		}
	}
	t := &selfAttention{SelfAttend: op, p: p, q: n.In[0], k: n.In[1], v: n.In[2], out: n.Out, selfMemory: p.self}
	c.stage(newStage(t.plan, t.pack))
	c.stage(newStage(func() int { return len(t.tasks) }, t.run))
}

// panelled rounds a number of rows up to whole panels.
func panelled(rows int) int { return ceil(rows, kernel.PanelRows) * kernel.PanelRows }

// plan lists the runs and tasks of a batch, allocates memory, and returns the
// number of heads to pack.
func (t *selfAttention) plan() int {
	t.runs, t.tasks = t.runs[:0], t.tasks[:0]
	keys, values, longest := 0, 0, 0
	add := func(from, to int) {
		n := to - from
		t.runs = append(t.runs, selfRun{from, to, keys, values})
		keys += t.Heads * panelled(n) * t.Dim
		values += t.Heads * panelled(t.Dim) * n
		longest = max(longest, n)
	}
	if t.Windowed {
		from := 0
		for _, to := range t.p.b.Windows {
			add(from, int(to))
			from = int(to)
		}
	} else {
		for _, s := range t.p.b.Spans {
			add(s.First, s.First+s.Rows)
		}
	}
	t.keys, t.values = room(t.keys, keys), room(t.values, values)
	for _, w := range t.workers {
		w.matrix, w.queries = room(w.matrix, longest*t.Dim), room(w.queries, selfRows*t.Dim)
		w.scores = room(w.scores, selfRows*longest)
	}
	for i, r := range t.runs {
		for h := range t.Heads {
			for first := r.from; first < r.to; first += selfRows {
				t.tasks = append(t.tasks, selfTask{i, h, first, min(selfRows, r.to-first)})
			}
		}
	}
	return len(t.runs) * t.Heads
}

// room returns a list of at least n values.
func room(x []float32, n int) []float32 {
	if len(x) >= n {
		return x
	}
	return make([]float32, n)
}

// bytesOf returns the memory of a slice.
func bytesOf(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// matrices returns the packed keys and transposed values of a head.
func (t *selfAttention) matrices(r *selfRun, head int) (keys, values kernel.Packed) {
	n := r.to - r.from
	k, v := panelled(n)*t.Dim, panelled(t.Dim)*n
	keys = kernel.Packed{Type: dtype.F32, Rows: n, Cols: t.Dim, Data: bytesOf(t.keys[r.keys+head*k:][:k])}
	values = kernel.Packed{Type: dtype.F32, Rows: t.Dim, Cols: n, Data: bytesOf(t.values[r.values+head*v:][:v])}
	return keys, values
}

// pack packs the keys and values of one head of one run.
func (t *selfAttention) pack(worker, task int) {
	r, head := &t.runs[task/t.Heads], task%t.Heads
	n, at := r.to-r.from, head*t.Dim
	keys, values := t.matrices(r, head)
	m := t.workers[worker].matrix[:n*t.Dim]
	for i := range n {
		copy(m[i*t.Dim:(i+1)*t.Dim], t.p.row(t.k, r.from+i)[at:])
	}
	// The result of Pack is ignored, because values that are not finite show in
	// the rows.
	kernel.Pack(keys.Data, dtype.F32, n, t.Dim, bytesOf(m), 0, keys.Panels())
	for i := range n {
		for j, v := range t.p.row(t.v, r.from+i)[at : at+t.Dim] {
			m[j*n+i] = v
		}
	}
	kernel.Pack(values.Data, dtype.F32, t.Dim, n, bytesOf(m), 0, values.Panels())
}

// run computes some rows of one head.
func (t *selfAttention) run(worker, task int) {
	j, w := &t.tasks[task], t.workers[worker]
	r := &t.runs[j.run]
	n, at, width := r.to-r.from, j.head*t.Dim, t.Heads*t.Dim
	keys, values := t.matrices(r, j.head)
	for i := range j.rows {
		kernel.Scale(w.queries[i*t.Dim:(i+1)*t.Dim], t.p.row(t.q, j.first+i)[at:at+t.Dim], t.Scale)
	}
	kernel.MatMulF32(w.scores, n, &keys, w.queries, t.Dim, 0, j.rows, 0, keys.Panels())
	var sums [selfRows]float32
	for i := range j.rows {
		s := w.scores[i*n : (i+1)*n]
		sums[i] = kernel.ExpSum(s, s, kernel.Max(s))
	}
	out := t.p.all(t.out, len(t.p.b.Tokens))[j.first*width+at:]
	kernel.MatMulF32(out, width, &values, w.scores, n, 0, j.rows, 0, values.Panels())
	for i := range j.rows {
		y := out[i*width : i*width+t.Dim]
		kernel.Scale(y, y, 1/sums[i])
	}
}
