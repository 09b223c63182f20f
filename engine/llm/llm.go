// Package llm holds the words that every layer of the engine shares.
package llm

// Token is a vocabulary id.
type Token = int32

// Seq names a sequence of the cache.
type Seq int32

// Span is the part of a Batch that belongs to one sequence. Its rows are
// adjacent and in position order.
type Span struct {
	Seq   Seq
	First int   // first row of the batch
	Rows  int   // number of rows
	Len   int   // length of the sequence after this batch
	State int32 // slot of the recurrent state; 0 where the model has none
}

// Pack is a full page that a run packs, at least in part: its steps From to
// To-1 of Of. Of the n layers of its group that are packed by page, the sides
// of layer k are packed in steps 2k·Of/2n and (2k+1)·Of/2n. Where Now is set rows of this batch read the page
// packed or fill it: it is packed between the writes and attention. Else nobody
// touches it yet, and packing may run beside attention.
type Pack struct {
	Seq          Seq   // whose page it is
	Page, Exact  int32 // the packed page, and the exact page it is packed from
	From, To, Of int
	Now          bool
}

// Batch is what one run of a Program works on. Position p of span s lies in
// page Tables[g][s][p/64] of every layer of window group g.
//
// In groups with an exact window a page that has an exact form too is
// Exact[g][s][p/64]. A row goes to the exact form of its page; where that is
// -1, and in types that are not packed by page, it is packed as it is written.
// Which rows read which form is kv.Window.FirstExact's word.
//
// Where only the largest logits of a row are wanted a Program may leave the
// others out: they are then minus infinity. Of equals the lowest tokens are
// the largest, and NaN is larger than any number.
type Batch struct {
	Tokens  []Token
	Pos     []int32
	Spans   []Span
	Tables  [][][]int32 // [group][span] pages in position order; a freed page is -1
	Exact   [][][]int32 // [group][span] exact pages in position order; -1 where there is none
	Packs   [][]Pack    // [group] pages to pack, before what Now says is read
	Input   []float32   // [len(Tokens), width] for plans that begin with graph.Input
	Outputs []int32     // rows whose logits are wanted, ascending
	Logits  []float32   // [len(Outputs), vocab], filled by the run
	Top     []int       // [len(Outputs)] how many of the largest logits are wanted, 0 for all; nil: all
}
