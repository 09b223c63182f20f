package dtype

import (
	"math"
	"testing"
)

// Every binary16 survives the way up and down; NaNs collapse to the quiet one.
func TestF16RoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		f := F16ToF32(uint16(h))
		got := F32ToF16(f)
		want := uint16(h)
		if f != f {
			want = want&0x8000 | 0x7e00
		}
		if got != want {
			t.Fatalf("%04x -> %g -> %04x, want %04x", h, f, got, want)
		}
	}
}

// Rounding agrees with choosing the nearest of the two neighbours in float64.
func TestF16Rounding(t *testing.T) {
	for h := uint16(0); h < 0x7bff; h++ {
		lo, hi := float64(F16ToF32(h)), float64(F16ToF32(h+1))
		mid := float32((lo + hi) / 2) // exact: 12 significant bits
		even := h
		if h&1 == 1 {
			even = h + 1
		}
		below := math.Nextafter32(mid, 0)
		above := math.Nextafter32(mid, float32(math.Inf(1)))
		for _, c := range []struct {
			in   float32
			want uint16
		}{{mid, even}, {below, h}, {above, h + 1}} {
			if got := F32ToF16(c.in); got != c.want {
				t.Fatalf("F32ToF16(%g) = %04x, want %04x", c.in, got, c.want)
			}
		}
	}
	if got := F32ToF16(65519.996); got != 0x7bff {
		t.Errorf("65519.996 -> %04x", got)
	}
	if got := F32ToF16(65520); got != 0x7c00 {
		t.Errorf("65520 -> %04x", got)
	}
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		in   uint32
		want uint16
	}{
		{0x3f800000, 0x3f80},
		{0x3f808000, 0x3f80},
		{0x3f818000, 0x3f82},
		{0x3f808001, 0x3f81},
		{0x7f800001, 0x7fc0},
		{0xffc00001, 0xffc0},
		{0x7f7fffff, 0x7f80},
	} {
		if got := F32ToBF16(math.Float32frombits(c.in)); got != c.want {
			t.Errorf("%08x -> %04x, want %04x", c.in, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for n, i := range infos {
		id := Type(n)
		if _, known := FromGGML(uint32(n)); known != (i.name != "") {
			t.Errorf("type %d is known: %v", n, known)
		}
		got, ok := Parse(i.name)
		if i.name == "" {
			if ok {
				t.Errorf("a type without a name is %v", got)
			}
			continue
		}
		if !ok || got != id {
			t.Errorf("Parse(%q) = %v, %v", i.name, got, ok)
		}
		if id.RowBytes(i.elems*3) != 3*i.bytes {
			t.Errorf("%v: RowBytes", id)
		}
	}
}
