// Package llm defines the terms that every layer of the engine shares.
package llm

// Token is the id of a vocabulary entry.
type Token = int32

// Seq identifies a sequence of the cache.
type Seq int32

// Coord holds the coordinates of a row in a picture: time, row, column. All
// three are equal for a text token.
type Coord [3]int32

// Span is the part of a Batch that belongs to one sequence. Its rows are
// adjacent and in position order.
type Span struct {
	Seq   Seq
	First int   // index of the first row in the batch
	Rows  int   // number of rows
	Len   int   // length of the sequence after this batch
	State int32 // slot of the recurrent state; 0 for models without one
	// Prompt reports that the rows belong to a prompt. Backends with a separate
	// kernel for single rows do not use that kernel for rows of a prompt, so the
	// bits of a row do not depend on where a chunk ends.
	Prompt bool
}

// Pack is a full page that a run packs, completely or in part. Packing is divided
// into Of steps, and this run executes steps From to To-1. If n layers of the group
// are packed by page, the two sides of layer k of these are packed in steps
// 2k·Of/(2n) and (2k+1)·Of/(2n), rounded down. With Now, rows of this batch fill
// the page or read its packed form. The page is then packed after the writes and
// before attention. Otherwise nothing reads the packed form yet, and packing may
// run beside attention.
type Pack struct {
	Seq          Seq   // owner of the page
	Page, Exact  int32 // the packed page, and the exact page from which it is packed
	From, To, Of int
	Now          bool
}

// Batch is the input of one run of a Program. Position p of span s is in page
// Tables[g][s][p/64] of every layer of window group g.
//
// In groups with an exact window, Exact[g][s][p/64] is the exact form of a page. A
// row is written to the exact form of its page, if there is one. The row is also
// packed when it is written if its page has no exact form (-1), or if the type is
// not packed by page. layout.Window.FirstExact determines which rows read which
// form.
//
// If only the largest logits of a row are needed, a Program may set the others
// to minus infinity. Among equals, the lowest tokens count as the largest, and
// NaN counts as larger than any number.
type Batch struct {
	Tokens  []Token // negative for a row of a picture, for which a plan that looks up tokens reads token 0
	Pos     []int32
	Spans   []Span
	Tables  [][][]int32 // [group][span] pages in position order; a freed page is -1
	Exact   [][][]int32 // [group][span] exact pages in position order; -1 for a page without an exact form
	Packs   [][]Pack    // [group] pages to pack; with Now set, before they are read
	Input   []float32   // [len(Tokens), width] for plans that begin with graph.Input
	Coords  []Coord     // [len(Tokens)] coordinates for Rope with axes; nil: every coordinate is the position
	Windows []int32     // end of each window of rows, ascending, for windowed SelfAttend
	Embds   [][]float32 // [len(Tokens)] supplied embeddings; nil entries for tokens, nil if there are only tokens
	Sees    []int32     // [len(Tokens)] end of the positions that a row of a tile sees, 0 for other rows; nil: no tiles
	Outputs []int32     // rows whose logits are needed, ascending
	Logits  []float32   // [len(Outputs), vocab], filled by the run
	Top     []int       // [len(Outputs)] how many of the largest logits are needed, 0 for all; nil: all of every row
}
