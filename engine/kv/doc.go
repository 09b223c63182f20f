// Package kv holds the KV cache types and their bytes. Its packages build on each
// other: layout decides which type each layer gets and how much memory that takes,
// and pages keeps the page tables of sequences. None of them holds cells. Those are
// in a backend, which reads and writes them through pages.Rows.
//
//	k, err := kv.Parse("q8_0")
//	v, err := kv.Parse("turbo3")
//	l, err := layout.Resolve(layout.Want{K: k, V: v}, layers, layout.Settings{Cells: 8192, Seqs: 4, UBatch: 512})
//	cache, err := pages.New(&l, pages.Options{Copier: program})
//	err = cache.Extend(seq, 100)
//	cache.Fill(&batch)
//
// A cache type is one literal of data. Codecs here, and kernels elsewhere, are
// written for forms (how codes are packed, where the scale is, which rotation),
// never for names.
//
// # Glossary
//
// These words have one meaning in engine/kv, engine/cpu, engine/gpu, engine/ref
// and the Go code of shaders. Names in kernels (shaders/*.h and the parameter
// structs that mirror them) are older in places; the last list maps them.
//
// Memory:
//
//	row          key or value of one token, all KV heads of a layer
//	cell         place of a row in a pool; a page is PageCells consecutive positions
//	pool         pages of one group of layers
//	page table   pages of a sequence, in order of position
//	group        layers with the same window and exact window; they share page tables
//	side         K or V of a layer
//	tier         one copy of a row: packed, exact, pinned, or measured (layout.Tier)
//	packed       stored in the cache type that the user chose
//	exact        stored in nearly full precision: the newest positions
//	pinned       stored exactly for good: the first positions. Settings, session
//	             files and documents call them attention sinks
//	measured     the statistics of a self-calibration
//	slice        a range of a layout's layers (Layout.Slice)
//	private      pages in a layer's own memory, unlike passing pages
//	budget       memory of one conversation, which decides its exact window by position
//	reserve      part of a budget for the next chunk
//	passing      exact pages that exist for one batch, in memory that all layers share
//
// Forms of a row:
//
//	type         a cache type, such as gw3: data, in one literal
//	form         a type at a head size, as a backend arranges it
//	segment      range of a head in one simple form
//	block        values that share one scale
//	code, level  the stored number of a value, and the value that it stands for
//	codebook     the levels of a type
//	saturated    a block whose scale was infinite or NaN
//	asymmetric   a cell whose second half is not the image of its first, so that
//	             attention must read both
//
// Channels and rotations:
//
//	channel      one of the values of a head, over all keys
//	calibration  mean and gain of every channel, measured once per model
//	SelfCalibration  the same, measured by a conversation on its own first keys
//	normalised   without the channel's mean and divided by its gain
//	equalised    scaled by InnerQ, so that channels have similar sizes
//	rotation     signs and Hadamard transforms before packing
//	rope         rotation by position (RoPE)
//	transpose    from [value][cell] to [cell][value], or back
//
// Attention:
//
//	sink logits  learned logits without a value, one per head
//	job          some rows of a sequence for one KV head
//	split        a job whose context several workers share
//	chunk        run of pages with a softmax of its own. A piece of a prompt is a
//	             batch; llama4's chunked attention is Attention.Chunk
//	prefetch     read into the processor's caches before use
//	observe      receive the queries and keys of a batch, for measurements
//	packed by page  encoded once a page is full, from exact rows
//	writes first    the rows of a batch are written before attention reads any
//
// In kernels: LEVEL and kv_level normalise, TURNS rotates back and forth, part is
// a chunk or a tier, SINKS are pinned rows in cell_of and sink logits in attend,
// OWN are private pages, late is packed by page.
package kv
