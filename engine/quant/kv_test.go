package quant_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/internal/golden"
	"godwit/engine/quant"
)

// kvManifest is golden/kv/<format>/manifest.json.
type kvManifest struct {
	Elems  int   `json:"block_elems"`
	Bytes  int   `json:"block_bytes"`
	Scales []int `json:"scale_f16_offsets_in_block"`
	Cases  []struct {
		Name     string
		Dim      int `json:"padded_dim"`
		Vectors  int
		RowBytes int `json:"row_bytes"`
		Input    string
		Packed   string
		Tags     []string
		Check    []string
		Restored struct{ File string }
	}
}

// The encoders write the reference's bytes, which decode to the reference's
// values. golden/kv/README.md has the rules for rows with infinite or NaN
// scales: a saturated scale, or 0 for NaN.
func TestGoldenKV(t *testing.T) {
	for _, name := range []string{"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "f16", "bf16", "tq3_1s", "tq4_1s"} {
		t.Run(name, func(t *testing.T) {
			var m kvManifest
			if err := json.Unmarshal(golden.Read(t, "kv", name, "manifest.json"), &m); err != nil {
				t.Fatal(err)
			}
			typ, _ := dtype.Parse(name)
			if typ.Elems() != m.Elems || typ.Bytes() != m.Bytes {
				t.Fatalf("dtype: %d values in %d bytes; manifest: %d in %d", typ.Elems(), typ.Bytes(), m.Elems, m.Bytes)
			}
			for _, c := range m.Cases {
				in := floats(golden.Read(t, "kv", c.Input))
				packed := golden.Read(t, "kv", c.Packed)
				restored := floats(golden.Read(t, "kv", c.Restored.File))
				for v := range c.Vectors {
					want := packed[v*c.RowBytes : (v+1)*c.RowBytes]
					values := restored[v*c.Dim : (v+1)*c.Dim]
					got := make([]byte, c.RowBytes)
					if err := quant.Encode(typ, got, in[v*c.Dim:(v+1)*c.Dim], nil); err != nil {
						t.Fatal(err)
					}
					checkPacked(t, m, c.Tags[v], c.Check[v], got, want)
					got32 := make([]float32, c.Dim)
					if err := quant.Decode(typ, got32, want); err != nil {
						t.Fatal(err)
					}
					if c.Check[v] == "zero_scale_codes_unspecified" { // 0 times any level, of either sign
						for i, f := range got32 {
							if f == 0 && values[i] == 0 {
								got32[i] = values[i]
							}
						}
					}
					sameBits(t, c.Tags[v], got32, values)
				}
			}
		})
	}
}

func checkPacked(t *testing.T, m kvManifest, tag, check string, got, want []byte) {
	t.Helper()
	for at := 0; at < len(want); at += m.Bytes {
		g, w := bytes.Clone(got[at:at+m.Bytes]), bytes.Clone(want[at:at+m.Bytes])
		if check == "inf_scale" || check == "nan_scale" {
			for _, s := range m.Scales {
				h := uint16(w[s]) | uint16(w[s+1])<<8
				switch {
				case h&0x7fff == 0x7c00 && (g[s] == 0xff && g[s+1] == byte((h-1)>>8)):
					g[s], g[s+1] = w[s], w[s+1]
				case h&0x7fff > 0x7c00 && g[s] == 0 && g[s+1] == 0:
					g[s], g[s+1] = w[s], w[s+1]
				}
			}
		}
		if !bytes.Equal(g, w) {
			t.Errorf("%s (%s), block %d:\n got %x\nwant %x", tag, check, at/m.Bytes, got[at:at+m.Bytes], w)
		}
	}
}
