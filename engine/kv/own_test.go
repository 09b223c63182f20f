package kv

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// What a conversation measures is what a calibration on the same rows would
// say, does not depend on what came before it, and survives a row.
func TestOwn(t *testing.T) {
	const dim, group = 32, 3
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(x []float32) {
		for i := range x {
			x[i] = float32(rng.NormFloat64()*float64(1+i%5) + float64(i%3))
		}
	}
	want, o, again := NewChannelStats(dim), NewOwn(dim, Rotary{}, 1000), NewOwn(dim, Rotary{}, 1000)
	k, q := make([]float32, dim), make([]float32, group*dim)
	for pos := range 90 { // another conversation in the same place
		fill(k)
		fill(q)
		o.Add(pos, k, q)
	}
	for pos := range OwnRows + 20 {
		fill(k)
		fill(q)
		if pos >= ownSkip && pos < OwnRows {
			want.AddKey(k)
			for g := range group {
				want.AddQuery(q[g*dim : (g+1)*dim])
			}
		}
		if got := o.Channels() != nil; got != (pos >= OwnRows) && pos > 0 {
			t.Fatalf("position %d: a calibration %v", pos, got)
		}
		o.Add(pos, k, q)
		if pos == 70 { // saved, and read into a place that was used
			again.Add(0, k, q)
			again.Add(9, k, q)
			row := make([]byte, ownRow(dim))
			o.Get(row)
			if err := again.Put(row); err != nil {
				t.Fatal(err)
			}
		} else if pos > 70 {
			again.Add(pos, k, q)
		}
	}
	whole, copied := NewOwn(dim, Rotary{}, 1000), NewOwn(dim, Rotary{}, 1000)
	row := make([]byte, ownRow(dim))
	o.Get(row)
	if err := whole.Put(row); err != nil {
		t.Fatal(err)
	}
	copied.Copy(&o)
	c := want.Channels()
	for name, p := range map[string]*Own{"measured": &o, "saved half way": &again, "saved": &whole, "copied": &copied} {
		if got := p.Channels(); got == nil || !slices.Equal(got.Mean, c.Mean) || !slices.Equal(got.Gain, c.Gain) {
			t.Errorf("%s: %v, want %v", name, got, c)
		}
	}
}

// Rows that nobody can have measured are refused, and what is odd in the keys
// gives channels that are finite.
func TestOwnHostile(t *testing.T) {
	const dim = 32
	o := NewOwn(dim, Rotary{[]RotaryPart{{Freqs: []float32{1, 0.1, 0}}}}, 1000)
	k := make([]float32, dim)
	for pos := range OwnRows {
		for i := range k {
			k[i] = []float32{0, float32(math.NaN()), float32(math.Inf(1)), 1e-40, math.MaxFloat32, -1}[(pos+i)%6*(i%2)]
		}
		o.Add(pos, k, k)
	}
	if c := o.Channels(); c == nil || !c.fits(dim) {
		t.Errorf("channels %v", c)
	}
	row := make([]byte, ownRow(dim))
	o.Get(row)
	for name, change := range map[string]func([]byte){
		"not finite": func(b []byte) { copy(b[6:], []byte{0xf8, 0x7f}) },
		"keys":       func(b []byte) { b[len(b)-16] = OwnRows + 1 },
		"queries":    func(b []byte) { b[len(b)-3] = 1 },
	} {
		bad := slices.Clone(row)
		change(bad)
		if err := o.Put(bad); !errors.Is(err, ErrSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 100 { // any finite sums
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 6 * dim * 8 {
			row[i] = byte(rng.Uint32())
		}
		if o.Put(row) == nil && o.Channels() != nil && !o.Channels().fits(dim) {
			t.Fatal("channels that are not finite")
		}
	}
}

// What few positions tell, spread over many, is what many would have told.
func TestOwnSpread(t *testing.T) {
	const dim, span = 32, 6000
	freqs := make([]float32, dim/2)
	for j := range freqs {
		freqs[j] = float32(math.Pow(10000, -float64(j)/float64(dim/2)))
	}
	for _, adjacent := range []bool{false, true} {
		r := Rotary{[]RotaryPart{{Freqs: freqs, Adjacent: adjacent}}}
		rng := rand.New(rand.NewPCG(7, 8))
		row := func(pos int, at float64) []float32 {
			x := make([]float32, dim)
			for j, f := range freqs {
				a, b := r.Parts[0].Pair(j)
				u, v := at*float64(j%3)+rng.NormFloat64(), at*2+rng.NormFloat64()*float64(1+j%4)
				sin, cos := math.Sincos(float64(pos) * float64(f))
				x[a], x[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
			}
			return x
		}
		o, want := NewOwn(dim, r, span), NewChannelStats(dim)
		o.Add(0, nil, nil)
		for range 400 { // more rows than a conversation has, for the comparison
			for pos := ownSkip; pos < OwnRows-1; pos++ {
				o.Add(pos, row(pos, 3), row(pos, 0))
			}
		}
		o.Add(OwnRows-1, row(OwnRows-1, 3), row(OwnRows-1, 0))
		for i := range 60000 {
			pos := i % span
			want.AddKey(row(pos, 3))
			want.AddQuery(row(pos, 0))
		}
		got, c := o.Channels(), want.Channels()
		for i := range dim {
			if math.Abs(float64(got.Mean[i]-c.Mean[i])) > 0.1 || math.Abs(math.Log(float64(got.Gain[i]/c.Gain[i]))) > 0.03 {
				t.Errorf("adjacent %v channel %d: mean %.3f gain %.3f, want %.3f and %.3f", adjacent, i, got.Mean[i], got.Gain[i], c.Mean[i], c.Gain[i])
			}
		}
	}
}
