package cpu

import (
	"fmt"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// attention is the Attend op of one layer.
type attention struct {
	graph.Attention
	p          *program
	q, k, v    graph.Value
	chosen     graph.Value // positions that each row attends to; None for all
	out        graph.Value
	cache      *layerCache
	sinkLogits []float32
	bias       *bias // bias of the scores; nil for none
	cuts       cuts
	group      int         // query heads per KV head
	block      int         // rows whose queries are processed together
	per        int         // jobs per task, in this batch
	piece      int         // pages per task, if this batch divides contexts
	counts     []attnCount // one per worker
	*attnMemory
	attnForms
	temper kv.Temper
	order  packOrder // index among the layers that are packed by page

	qRope, kRope *rope // RoPE that attention applies; nil if q and k already have it
	quantise     bool  // attention also quantises its output
	inPlace      bool  // the output is only read in quantised form
}

// attnForms holds the packed, exact and pinned forms of K and V that a layer reads.
// Exact and pinned forms may be nil.
type attnForms struct{ kForm, vForm, kExact, vExact, kPinned, vPinned *attn.Form }

// attnWorker is the memory of one worker. Layers of the same shape share it.
type attnWorker struct {
	queries      *attn.Queries
	exact        *attn.Queries // queries prepared for exact keys
	pinned       *attn.Queries // queries prepared for pinned keys
	pinnedScores []float32
	scores       []float32
	sum          []float32 // accumulators of the current chunk, Padded values for each query
	scratch      *attn.Scratch
	normalised   []float32 // a key or query with normalised channels
	roped        []float32 // a key, then the queries of a row, after RoPE
	out          []float32 // output of one query head
	offset       []float32 // per query, the product with the mean that its packed scores lack
	chunk, total []softmax
	keys, values [longPages]attn.Visit
	single       [1]attn.Visit
	prefetchNext []byte // the first page of the next job
	ready        prepared
	prefix       prefix
	attnCounted
}

// prepared identifies the queries that a worker holds ready. A task can reuse
// what the previous task prepared.
type prepared struct {
	t     *attention
	epoch uint32
	row   int
	head  int
}

// prefix records how many leading chunks of a split job this worker has already
// merged. They then need not move to the worker that merges the rest.
type prefix struct {
	t      *attention
	epoch  uint32
	split  int
	chunks int
}

// attnMemory is the memory that layers of the same shape share.
type attnMemory struct {
	workers []*attnWorker
	partial []softmax       // [job that is split][chunk][query]
	arrived []atomic.Uint64 // number of finished chunks of each split job; the upper half counts merged chunks
	jobs    int             // number of jobs that may be split
	chunks  int             // number of chunks of the longest context
}

// attnShape is the key of an attnMemory.
type attnShape struct {
	attnForms
	group  int
	block  int
	chunks int
}

// attnCount counts the work of attention in a layer: cells that Sparse V
// considered and skipped, bytes of K and V that it read, keys and values that were
// not finite, and, by side, blocks that were written with a saturated scale.
type attnCount struct {
	considered, skipped atomic.Int64
	kBytes, vBytes      atomic.Int64
	broken              atomic.Int64 // keys and values with NaN or infinity
	saturated           [2]atomic.Int64
	_                   [72]byte // keeps the counters of layers and workers on separate cache lines
}

// attnCounted holds what a worker counts during a task. The totals are added
// once at the end, because shared counters would move between caches at every
// page.
type attnCounted struct{ considered, skipped, kBytes, vBytes int }

func (c *attnCount) add(n *attnCounted) {
	c.considered.Add(int64(n.considered))
	if n.skipped > 0 {
		c.skipped.Add(int64(n.skipped))
	}
	c.kBytes.Add(int64(n.kBytes))
	c.vBytes.Add(int64(n.vBytes))
	*n = attnCounted{}
}

// maxQueries bounds the queries of a block so that their accumulators stay in
// cache.
const maxQueries = 48

// attend adds the cache write and the attention of a layer. In a batch of
// single rows, the task that reads a page also writes it. Otherwise a stage
// before attention writes all rows, because rows read what other rows write.
func (c *compiler) attend(n graph.Node, a graph.Attention) error {
	t, err := c.attention(n, a)
	if err != nil {
		return err
	}
	p, l := c.p, t.cache
	if c.quantise[n.Out] > 0 && a.DimV%32 == 0 {
		t.quantise, c.inside[n.Out] = true, true
		t.inPlace = c.readers[n.Out].floats == 0
		c.unstored[n.Out] = t.inPlace
	}
	if p.backend.observer != nil {
		c.stage(newStage(func() int { return 1 }, t.observe))
	}
	if t.k != graph.None {
		c.stage(newStage(t.writeTasks, t.write))
		if l.self != nil {
			c.stage(newStage(t.measureTasks, t.measure))
		}
	}
	if t.order.of == 0 {
		c.stage(newStage(t.tasks, t.run))
		return nil
	}
	c.stage(newStage(func() int { return t.packTasks(true) }, func(worker, task int) { t.pack(worker, task, true) }))
	attend := 0 // number of tasks that attend in this batch; the other tasks pack
	c.stage(newStage(func() int {
		attend = t.tasks()
		return attend + t.packTasks(false)
	}, func(worker, task int) {
		if task < attend {
			t.run(worker, task)
		} else {
			t.pack(worker, task-attend, false)
		}
	}))
	return nil
}

// attention prepares the attention of a layer. It adds no stage.
func (c *compiler) attention(n graph.Node, a graph.Attention) (*attention, error) {
	p := c.p
	own := a.Layer
	if n.In[1] == graph.None {
		own = a.Share
	}
	l, err := p.cache.layer(own)
	if err != nil {
		return nil, err
	}
	if l.kvHeads != a.KVHeads {
		return nil, fmt.Errorf("cpu: layer %d has %d KV heads, its cache %d", a.Layer, a.KVHeads, l.kvHeads)
	}
	t := &attention{
		Attention: a, p: p, q: n.In[0], k: n.In[1], v: n.In[2], out: n.Out, cache: l,
		sinkLogits: p.weights.floats(a.SinkLogits), cuts: cutsFor(a.KVHeads), group: a.Heads / a.KVHeads, counts: p.counts(a.Layer),
		attnForms: attnForms{l.k.form, l.v.form, l.k.exact.form, l.v.exact.form, l.k.pinned.form, l.v.pinned.form},
		temper:    l.temper,
	}
	if a.MLA {
		view := func(f *attn.Form) *attn.Form {
			if f == nil {
				return nil
			}
			return p.cache.form(formKey{f.Type, f.HeadDim, a.DimV, f.Options})
		}
		t.vForm, t.vExact, t.vPinned = view(l.k.form), view(l.k.exact.form), view(l.k.pinned.form)
	}
	if t.k != graph.None {
		t.order = packOrderOf(p.layout, own)
	}
	if t.bias = c.bias(&a); t.bias != nil && a.Softcap > 0 {
		return nil, fmt.Errorf("%w: attention with both a bias and a soft cap on cpu", backend.ErrUnsupported)
	}
	t.qRope, t.kRope = c.takeRope(&t.q), c.takeRope(&t.k)
	t.chosen = graph.None
	if len(n.In) > 3 {
		t.chosen = n.In[3]
	}
	t.block = max(1, maxQueries/t.group)
	shape := attnShape{t.attnForms, t.group, t.block, t.cuts.room(p.sizes.Pages[l.group])}
	t.attnMemory = p.cache.memoryOf(shape, p.backend.pool.workers)
	return t, nil
}

// observe passes the queries and keys of a batch to the observer.
func (t *attention) observe(int, int) {
	for row := range t.p.b.Tokens {
		var k []float32
		if t.k != graph.None {
			k = t.p.row(t.k, row)
		}
		t.p.backend.observer(t.Layer, int(t.p.b.Pos[row]), t.p.row(t.q, row), k)
	}
}
