package layout

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/kv"
)

// A conversation's calibration equals a calibration on the same rows, does not
// depend on what came before it, and can be saved as a row.
func TestSelfCalibration(t *testing.T) {
	const dim, group = 32, 3
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(x []float32) {
		for i := range x {
			x[i] = float32(rng.NormFloat64()*float64(1+i%5) + float64(i%3))
		}
	}
	want, o, again := NewChannelStats(dim, Rotary{}), NewSelfCalibration(dim, Rotary{}, 1000), NewSelfCalibration(dim, Rotary{}, 1000)
	k, q := make([]float32, dim), make([]float32, group*dim)
	for pos := range 90 { // another conversation in the same place
		fill(k)
		fill(q)
		o.Add(pos, k, q)
	}
	for pos := range SelfRows + 20 {
		fill(k)
		fill(q)
		if pos >= selfSkip && pos < SelfRows {
			want.AddKey(pos, k)
			for g := range group {
				want.AddQuery(pos, q[g*dim:(g+1)*dim])
			}
		}
		if got := o.Channels() != nil; got != (pos >= SelfRows) && pos > 0 {
			t.Fatalf("position %d: a calibration %v", pos, got)
		}
		o.Add(pos, k, q)
		if pos == 70 { // saved, and loaded into a used place
			again.Add(0, k, q)
			again.Add(9, k, q)
			row := make([]byte, selfRow(dim))
			o.Get(row)
			if err := again.Put(row); err != nil {
				t.Fatal(err)
			}
		} else if pos > 70 {
			again.Add(pos, k, q)
		}
	}
	whole, copied := NewSelfCalibration(dim, Rotary{}, 1000), NewSelfCalibration(dim, Rotary{}, 1000)
	row := make([]byte, selfRow(dim))
	o.Get(row)
	if err := whole.Put(row); err != nil {
		t.Fatal(err)
	}
	copied.Copy(&o)
	c := kv.Channels{Mean: make([]float32, dim), Gain: make([]float32, dim)}
	want.measure(&c)
	for name, p := range map[string]*SelfCalibration{"measured": &o, "saved half way": &again, "saved": &whole, "copied": &copied} {
		if got := p.Channels(); got == nil || !slices.Equal(got.Mean, c.Mean) || !slices.Equal(got.Gain, c.Gain) {
			t.Errorf("%s: %v, want %v", name, got, c)
		}
	}
}

// Impossible rows are rejected, and unusual keys give finite channels.
func TestSelfCalibrationHostile(t *testing.T) {
	const dim = 32
	o := NewSelfCalibration(dim, Rotary{Parts: []RotaryPart{{Freqs: []float32{1, 0.1, 0}}}}, 1000)
	k := make([]float32, dim)
	for pos := range SelfRows {
		for i := range k {
			k[i] = []float32{0, float32(math.NaN()), float32(math.Inf(1)), 1e-40, math.MaxFloat32, -1}[(pos+i)%6*(i%2)]
		}
		o.Add(pos, k, k)
	}
	if c := o.Channels(); c == nil || !c.Fits(dim) {
		t.Errorf("channels %v", c)
	}
	row := make([]byte, selfRow(dim))
	o.Get(row)
	for name, change := range map[string]func([]byte){
		"not finite": func(b []byte) { copy(b[6:], []byte{0xf8, 0x7f}) },
		"keys":       func(b []byte) { b[len(b)-16] = SelfRows + 1 },
		"queries":    func(b []byte) { b[len(b)-3] = 1 },
	} {
		bad := slices.Clone(row)
		change(bad)
		if err := o.Put(bad); !errors.Is(err, ErrCalibration) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 100 { // any finite sums
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 6 * dim * 8 {
			row[i] = byte(rng.Uint32())
		}
		if o.Put(row) == nil && o.Channels() != nil && !o.Channels().Fits(dim) {
			t.Fatal("channels that are not finite")
		}
	}
}
