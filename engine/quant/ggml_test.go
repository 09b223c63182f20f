package quant_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// Any bytes decode to the same values as in ggml, for every code, scale and
// sign of every format, including NaN and infinite scales. See
// testdata/README.md.
func TestRandomBytes(t *testing.T) {
	data, err := os.ReadFile("testdata/ggml.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Type, Fnv1a string }
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	const blocks = 4096
	for _, c := range cases {
		t.Run(c.Type, func(t *testing.T) {
			typ, ok := dtype.Parse(c.Type)
			if !ok {
				t.Fatal("dtype does not know the name")
			}
			got := make([]float32, blocks*typ.Elems())
			if err := quant.Decode(typ, got, splitmix(uint64(typ), blocks*typ.Bytes())); err != nil {
				t.Fatal(err)
			}
			h := fnv.New64a()
			for _, f := range got {
				u := math.Float32bits(f)
				if f != f {
					u = 0x7fc00000
				}
				h.Write([]byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)})
			}
			if sum := fmt.Sprintf("%016x", h.Sum64()); sum != c.Fnv1a {
				t.Errorf("hash of the values is %s, ggml's %s; first values %g", sum, c.Fnv1a, got[:4])
			}
		})
	}
}

// splitmix returns the top bytes of n splitmix64 outputs.
func splitmix(seed uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		seed += 0x9e3779b97f4a7c15
		z := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		b[i] = byte((z ^ z>>31) >> 56)
	}
	return b
}
