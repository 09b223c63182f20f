package resume

import (
	"bytes"
	"net/http"
	"testing"
)

// The stored part of a stream is limited, and the newest bytes are kept.
func TestReplayBounds(t *testing.T) {
	p := newReplay("", "", func() {})
	p.WriteHeader(http.StatusOK)
	for i := range 5 {
		if _, err := p.Write(bytes.Repeat([]byte{byte('a' + i)}, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if b, _, err := p.read(4 << 20); err != nil || len(b) != 1<<20 || b[0] != 'e' || len(p.buf) != replayBytes {
		t.Errorf("%d bytes of %d kept, %v", len(b), len(p.buf), err)
	}
	if _, _, err := p.read(0); err == nil {
		t.Error("bytes that were dropped are read")
	}
}
