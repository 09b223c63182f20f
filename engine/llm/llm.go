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

// Batch is what one run of a Program works on. Position p of span s lies in
// page Tables[g][s][p/64] of every layer of window group g.
type Batch struct {
	Tokens  []Token
	Pos     []int32
	Spans   []Span
	Tables  [][][]int32 // [group][span] pages in position order; a freed page is -1
	Input   []float32   // [len(Tokens), width] for plans that begin with graph.Input
	Outputs []int32     // rows whose logits are wanted, ascending
	Logits  []float32   // [len(Outputs), vocab], filled by the run
}
