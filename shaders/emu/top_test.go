//go:build linux || darwin

package emu

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"godwit/shaders"
)

// largest returns the expected result of top for rows of width values: pairs of
// bits and indices.
func largest(x []float32, width, count int) (pairs []uint32) {
	for ; len(x) > 0; x = x[width:] {
		order := make([]int, width)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			a, b := float64(x[i]), float64(x[j])
			if math.IsNaN(a) || math.IsNaN(b) { // NaN comes first, but cmp puts it last
				return -cmp.Compare(truth(math.IsNaN(a)), truth(math.IsNaN(b)))
			}
			return cmp.Compare(b, a)
		})
		for k := range count {
			if k < width {
				pairs = append(pairs, math.Float32bits(x[order[k]]), uint32(order[k]))
			} else {
				pairs = append(pairs, math.Float32bits(float32(math.Inf(-1))), math.MaxUint32)
			}
		}
	}
	return pairs
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// find runs top in stages over rows of width values.
func find(x []float32, width, count int, edit func(string) string) ([]uint32, error) {
	rows, in, listed := len(x)/width, raw(x), uint32(0)
	for {
		stretches := (width + shaders.TopStretch - 1) / shaders.TopStretch
		out, err := once{
			kernel: "top", grid: [3]uint32{uint32(stretches), uint32(rows), 1}, edit: edit,
			args:   map[string][]byte{"x": in, "y": nans(2 * rows * stretches * count)},
			params: shaders.Bytes(&shaders.TopParams{Width: uint32(width), Count: uint32(count), Listed: listed}),
		}.try()
		if err != nil || stretches == 1 {
			return as[uint32](out["y"]), err
		}
		in, width, listed = out["y"], stretches*count, 1
	}
}

// TestTop compares with a sort, for ties, infinities, NaN, fewer values than
// requested, and several stages.
func TestTop(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct{ width, rows, count int }{{5000, 3, 64}, {5000, 2, 1}, {2048, 1, 64}, {40, 2, 64}, {1, 1, 1}, {2049, 1, 7}} {
		x := normal(5, c.rows*c.width)
		for i := range x {
			x[i] = float32(math.Round(float64(x[i]) * 8)) // many values are equal
		}
		for i, v := range []float32{inf, nan, -inf, nan, 0, float32(math.Copysign(0, -1))} {
			if at := 1 + i*c.width/7; at < c.width {
				x[at] = v
			}
		}
		got, err := find(x, c.width, c.count, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := largest(x, c.width, c.count); !slices.Equal(got, want) {
			t.Errorf("%+v: got %x, want %x", c, got, want)
		}
	}
}

func judgeTop(_ *testing.T, edit func(string) string) error {
	x := normal(6, 2*3000)
	got, err := find(x, 3000, 5, edit)
	if err != nil {
		return err
	}
	if want := largest(x, 3000, 5); !slices.Equal(got, want) {
		return fmt.Errorf("got %x, want %x", got, want)
	}
	return nil
}
