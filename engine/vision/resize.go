package vision

import (
	"fmt"
	"math"
)

// filter is the kernel of a resampler.
type filter struct {
	support float64
	weight  func(x float64) float64
}

// Filters of Pillow's resampler.
var (
	bilinear = filter{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
	bicubic  = filter{2, cubic}
	lanczos  = filter{3, func(x float64) float64 {
		if x < -3 || x >= 3 {
			return 0
		}
		return sinc(x) * sinc(x/3)
	}}
)

// cubic is Keys' kernel with a = -1/2. Source: IEEE ASSP 29 (1981), 1153-1160.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64((a+2)*x)-(a+3))*x*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// weightBits is the number of fractional bits of a tap.
const weightBits = 22

// taps are the input pixels that contribute to one output pixel along an axis, with
// their weights.
type taps struct {
	first   int
	weights []int32
}

// axis returns the taps of every output pixel. If the picture grows, the taps
// interpolate. If it shrinks, the kernel is stretched over all pixels that an
// output pixel covers.
func (f filter) axis(in, out int) []taps {
	list := make([]taps, out)
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	radius := f.support * stretch
	var buf []float64
	for i := range list {
		centre := (float64(i) + 0.5) * scale
		lo := max(0, int(centre-radius+0.5))
		hi := min(in, int(centre+radius+0.5))
		buf = buf[:0]
		sum := 0.0
		for j := lo; j < hi; j++ {
			w := f.weight((float64(j) - centre + 0.5) / stretch)
			buf = append(buf, w)
			sum += w
		}
		t := taps{lo, make([]int32, len(buf))}
		for j, w := range buf {
			if sum != 0 {
				w /= sum
			}
			t.weights[j] = int32(math.Round(w * (1 << weightBits)))
		}
		list[i] = t
	}
	return list
}

// maxWork bounds the number of pixels between the two passes, which can be large
// for a very narrow picture.
const maxWork = 1 << 27

// resize returns the picture scaled to w × h pixels. Both passes round to eight
// bits. If an axis keeps its size, its pass is skipped.
func (p *rgb) resize(w, h int, f filter) (*rgb, error) {
	if w == p.w && h == p.h {
		return p, nil
	}
	if w*p.h > maxWork {
		return nil, fmt.Errorf("%w: a picture of %d × %d pixels is too narrow", ErrImage, p.w, p.h)
	}
	var across []taps
	if w != p.w {
		across = f.axis(p.w, w)
	}
	row := make([]byte, 3*w)
	wide := func(y int) []byte { // returns row y of the result of the horizontal pass
		src := p.pix[3*y*p.w : 3*(y+1)*p.w]
		if across == nil {
			return src
		}
		for i, t := range across {
			sums := [3]int64{1 << (weightBits - 1), 1 << (weightBits - 1), 1 << (weightBits - 1)}
			s := src[3*t.first:]
			for j, k := range t.weights {
				sums[0] += int64(k) * int64(s[3*j])
				sums[1] += int64(k) * int64(s[3*j+1])
				sums[2] += int64(k) * int64(s[3*j+2])
			}
			for c, v := range sums {
				row[3*i+c] = clip8(v)
			}
		}
		return row
	}
	out := newRGB(w, h)
	if h == p.h {
		for y := range h {
			copy(out.pix[3*y*w:], wide(y))
		}
		return out, nil
	}
	// Each row of the first pass is added to all output rows that it contributes
	// to. Integer sums do not depend on the order, so only the sums are kept.
	down := f.axis(p.h, h)
	sums := make([]int64, 3*w*h)
	for i := range sums {
		sums[i] = 1 << (weightBits - 1)
	}
	from := 0
	for y := range p.h {
		r := wide(y)
		for from < h && down[from].first+len(down[from].weights) <= y {
			from++
		}
		for o := from; o < h && down[o].first <= y; o++ {
			if y-down[o].first >= len(down[o].weights) {
				continue
			}
			k := int64(down[o].weights[y-down[o].first])
			s := sums[3*w*o : 3*w*(o+1)]
			for i, v := range r {
				s[i] += k * int64(v)
			}
		}
	}
	for i, v := range sums {
		out.pix[i] = clip8(v)
	}
	return out, nil
}

// clip8 rounds a sum to a byte and clamps it.
func clip8(v int64) byte { return byte(max(0, min(255, v>>weightBits))) }

// letterbox scales the whole picture into w × h and fills the borders.
func (p *rgb) letterbox(w, h int, f filter, fill [3]byte) (*rgb, error) {
	if p.w == w && p.h == h {
		return p, nil
	}
	s := min(float32(w)/float32(p.w), float32(h)/float32(p.h))
	nw, nh := min(ceil32(float32(p.w)*s), w), min(ceil32(float32(p.h)*s), h)
	in, err := p.resize(max(nw, 1), max(nh, 1), f)
	if err != nil {
		return nil, err
	}
	out := newRGB(w, h)
	for i := 0; i < len(out.pix); i += 3 {
		copy(out.pix[i:], fill[:])
	}
	x, y := (w-in.w)/2, (h-in.h)/2
	for r := range in.h {
		copy(out.pix[3*((y+r)*w+x):], in.pix[3*r*in.w:3*(r+1)*in.w])
	}
	return out, nil
}

func ceil32(x float32) int { return int(math.Ceil(float64(x))) }

// cut returns the part of the picture at x, y.
func (p *rgb) cut(x, y, w, h int) *rgb {
	out := newRGB(w, h)
	for r := range h {
		copy(out.pix[3*r*w:3*(r+1)*w], p.pix[3*((y+r)*p.w+x):])
	}
	return out
}

// aligned returns the size that is closest to the picture's, with sides that
// are multiples of align. It has at least least and at most most pixels, if
// both limits can be met.
func aligned(w, h, align, least, most int) (int, int) {
	a := float32(align)
	round := func(n int) int { return max(align, int(math.Round(float64(float32(n)/a)))*align) }
	nw, nh := round(w), round(h)
	switch {
	case nw*nh > most:
		b := sqrt32(float32(w*h) / float32(most))
		floor := func(n int) int { return max(align, int(math.Floor(float64(float32(n)/b/a)))*align) }
		return floor(w), floor(h)
	case nw*nh < least:
		b := sqrt32(float32(least) / float32(w*h))
		ceil := func(n int) int { return ceil32(float32(float32(n)*b)/a) * align }
		return ceil(w), ceil(h)
	}
	return nw, nh
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
