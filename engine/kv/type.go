package kv

import (
	"math"

	"godwit/engine/dtype"
)

// PageCells is the number of consecutive positions of one sequence in a page.
const PageCells = 64

// Side is K or V.
type Side uint8

// The two sides of a cache.
const (
	K Side = iota
	V
)

func (s Side) String() string {
	if s == V {
		return "V"
	}
	return "K"
}

// Groups of cache types, by how much they cost in quality.
const (
	Safe         = "safe"
	Balanced     = "balanced"
	Small        = "small"
	Experimental = "experimental"
)

// Type is a KV cache type ("cache type" in llama.cpp's terms).
//
// A simple form stores blocks of Elems values in Bytes bytes, each block with one
// scale. A head is padded with zeros to whole blocks. A form with Join consists of
// several simple forms. Cut makes such a form for a head size. A type with none of
// the three is a shorthand, which Heads resolves to a form for a given head size.
//
// The value of code c is Levels[c]·scale·unit, or Levels[c]·scale + min in an
// affine form. With Rotation, it is in the rotated domain.
type Type struct {
	Name    string
	Aliases []string
	Note    string // one line for tables
	Group   string // Safe, Balanced, Small or Experimental; empty for types that lists omit
	Rules   Rules

	Elems, Bytes int
	Float        bool // values are plain floats of type Stored, without scale or codes
	Stored       dtype.Type
	Codes        Codes
	Scale        Scale
	Rotation     Rotation
	Residual     *Residual
	Polar        *Polar
	Join         []Piece // composed form made of these pieces of a head
	Cut          *Cut    // a head is divided into blocks of several sizes
	Window       Window
	Temper       Temper
	Normalised   bool // keys need a calibration of their channels
	Heads        Heads
	Variants     []Variant // other encodings under the same name, by head size
	Retired      string    // why the name is not a cache type, and what to use instead; only kv encode and kv decode accept it
}

// Rules are how policies treat a type.
type Rules struct {
	Boundary     bool  // layer policies apply to it
	AutoBoundary bool  // as V it switches boundary V on if no policy was set
	Asymmetric   bool  // as K with the same type as V it becomes q8_0 if many query heads share a KV head
	BypassSWA    bool  // if K or V has it, layers with a sliding window keep f16
	ByHead       bool  // its form depends on the head sizes in the file's metadata
	WideHeadV    *Type // type that replaces a V that is not Wide, if this type is K with a head of 512
	Wide         bool  // can be V beside a K with a head of 512 that has a WideHeadV
	PacksRotary  bool  // the rotary values of latent attention are packed too
}

// Piece is a part of a composed form.
type Piece struct {
	Form *Type
	Dim  int // number of the head's values in the piece
}

// Variant is another encoding of the same name.
type Variant struct {
	Dim      int // the head size it serves; 0 if chosen by Rotation
	Rotation int // rotation size of the variant, for types whose rotation follows the head
	Form     *Type
}

// Packing is the arrangement of codes in a block's bytes.
type Packing uint8

// The packings.
const (
	Stream Packing = iota // one bit stream, least significant bit first, at Codes.At
	Planes                // low two bits as a stream at At, the third bit as a stream at High
	Halves                // byte j at At holds element j low, j+Elems/2 high; a fifth bit as a stream at High
	Int8                  // one signed byte per code, from At on
	Cyclic                // trellis: the state of value i is the 8 bits from bit Bits·i of a cyclic string
)

// Codes describes the codes of a block.
type Codes struct {
	Bits       int
	Packing    Packing
	At, High   int       // byte offsets in the block
	Levels     []float32 // value of each code; nil for Int8, whose level is the code itself
	Trellis    *Trellis  // the encoder of Cyclic codes
	Boundaries []float32 // code = index of the first boundary strictly greater than the value
}

// Rule is how an encoder finds the scale of a block.
type Rule uint8

// The scale rules.
const (
	NoScale       Rule = iota
	CorrectedNorm      // |x| over the length of the chosen levels, so that the decoded block has the length of x
	RotatedNorm        // length after an unnormalised rotation
	OuterAmax          // largest rotated magnitude over the outermost level
	Norm               // length of x, divided out before the rotation
	RMS                // root mean square after the rotation
	StockAmax          // q8_0: largest magnitude over 127
	StockSigned        // q4_0, q5_0: the value of largest magnitude gets the lowest level
	StockMinStep       // q4_1, q5_1: minimum and step
	StockFitted        // iq4_nl: nearest levels, then a weighted fit
	Unbiased           // |x|² over Σ x·level, after the rotation
)

// Scale describes the scale of a block, an f16.
type Scale struct {
	At      int // byte offset in the block
	Min     int // byte offset of the minimum, an f16, in an affine form
	Affine  bool
	Rule    Rule
	Floor   float32 // norms up to this count as zero
	Outer   float32 // OuterAmax: the outermost level
	Unit    float32 // multiplies levels times scale; 0 means 1
	Joint   bool    // RMS: one scale over all blocks of the rotation
	ZeroNaN bool    // CorrectedNorm: a NaN norm encodes as the zero vector
	Zero    uint8   // RotatedNorm: the code of every value when the norm is not above zero
}

// Rotation rotates Size values together: multiply by Pre and apply the
// Walsh-Hadamard transform. If Mid is set, multiply by Mid and transform again. Then
// multiply by Forward and by Post. The inverse takes these steps backwards and
// multiplies by Inverse after each transform. The zero value means no rotation.
type Rotation struct {
	Size           int
	Pre, Mid, Post []float32 // signs, +1 or -1; nil for all +1
	Forward        float32   // applied once after the last transform of a stored row; 0 means 1
	Inverse        float32   // applied after each transform of the inverse; 0 means 1
	Query          float32   // replaces Forward for queries
}

// ResidualRule is how the residual signs of a block are found.
type ResidualRule uint8

// The residual rules.
const (
	DirectSign ResidualRule = iota // sign of value minus level; scale = mean magnitude
	Projected                      // sign of a second transform of the residual; scale = its length
)

// Residual is a second plane with one sign per value (tbqp).
type Residual struct {
	Rule   ResidualRule
	At     int       // byte offset of its f16 scale
	Bits   int       // byte offset of its signs, a 1-bit stream, set for not negative
	Signs  []float32 // Projected: signs before the second transform, Rotation.Size of them
	Factor float32   // multiplies the query vector of the signs; 0 if the signs are stored and never read
}

// Polar is the position-free copy of a key that amx3 appends: per pair
// (k, k+Elems/2) a radius and an angle code. Attention does not read it.
type Polar struct {
	Sigma         int // byte offset of the f16 scale
	Radius, Angle int // byte offsets of the 3-bit and 4-bit streams
	Levels        []float32
	Boundaries    []float32
	Floor, Lambda float32
	RopeBase      float32 // default for rows whose At has none
}

// Window is the range of positions that a type also keeps in exact form by default.
type Window struct{ Pinned, Newest int }

// Temper is the attention temperature of a key type: a finished logit s over n
// cells becomes s·Factor(n). The zero value changes nothing.
type Temper struct {
	Sharpen float32 // s·(1 + Sharpen·sqrt(ln n))
	Soften  float32 // s·q/(q + sqrt(ln n / ln 2048)), q = Soften
}

// On reports whether the temperature changes anything.
func (t Temper) On() bool { return t != Temper{} }

// Factor returns the multiplier of a logit over n unmasked cells. n is rounded
// up to 256 so that it does not depend on the arrangement of a batch. Source:
// spec kv-policies.md section 5.
func (t Temper) Factor(n int) float32 {
	if !t.On() {
		return 1
	}
	n = max((n+255)/256*256, 256)
	ln := math.Log(float64(n))
	if t.Sharpen != 0 {
		return float32(1 + float64(t.Sharpen)*math.Sqrt(ln))
	}
	q := float64(t.Soften)
	return float32(q / (q + math.Sqrt(ln/7.6246)))
}

// Heads describes the head sizes that a type supports, and its replacements for
// other sizes.
type Heads struct {
	Pad  bool              // any size, padded with zeros to whole blocks
	Only int               // this size only; 0 for any multiple of Elems
	By   map[int][2]string // names for K and V by head size; set for shorthands
	As   string            // name of the shorthand; set for explicit names
	K, V string            // names that replace the type on one side, for every head size
	Same bool              // the replacement is the same type under another name
	Old  bool              // the explicit name is deprecated
	Else string            // replacement if the type does not fit
}

// At holds what an encoder may need in addition to the values of a row.
type At struct {
	Pos      int
	RopeBase float32
	Channels *Channels // nil for none
}
