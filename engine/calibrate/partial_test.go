package calibrate

import (
	"bytes"
	"testing"
)

// The size of the file limits the size of a partial calibration, whatever the file claims.
func FuzzPartial(f *testing.F) {
	f.Add([]byte(partialMagic))
	f.Add([]byte(partialMagic + "\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte(partialMagic + "\x01\x00\x00\x00\x14\x00\x00\x00" + `{"read":4,"body":9e7}`))
	f.Add([]byte(partialMagic + "\x01\x00\x00\x00\x12\x00\x00\x00" + `{"sense":[1,-1,2]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePartial(bytes.NewReader(data))
		if err == nil && (len(p.body) > len(data) || p.Read == 0 && p.whole == nil) {
			t.Errorf("%d bytes from %d, %v", len(p.body), len(data), p.whole)
		}
	})
}
