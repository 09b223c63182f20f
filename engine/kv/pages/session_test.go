package pages

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// saved returns a sequence of a shape, and the file that it was saved to.
func saved(t testing.TB, shape string, steps int) (*twin, []byte) {
	w := newTwin(t, shape, 1)
	for range steps {
		w.extend(t, 0, 61)
	}
	var file bytes.Buffer
	if err := w.c.Save(&file, 0, w.m); err != nil {
		t.Fatal(err)
	}
	return w, file.Bytes()
}

// reheader replaces the header of a file.
func reheader(t testing.TB, file []byte, change func(h *sessionHeader)) []byte {
	n := binary.LittleEndian.Uint32(file[12:])
	h := new(sessionHeader)
	if err := json.Unmarshal(file[16:16+n], h); err != nil {
		t.Fatal(err)
	}
	change(h)
	head, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte(nil), file[:12]...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = append(out, head...)
	return append(out, file[16+n:]...)
}

// Every mismatch and every kind of damage is rejected with its reason. The sequence
// is then empty and the bookkeeping intact.
func TestLoadRefuses(t *testing.T) {
	_, file := saved(t, "windows", 5)
	head := func(change func(h *sessionHeader)) func([]byte) []byte {
		return func(b []byte) []byte { return reheader(t, b, change) }
	}
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		why    string
	}{
		{"empty", func([]byte) []byte { return nil }, "ends early"},
		{"other file", func(b []byte) []byte { b[0] = 'G'; return b }, "not a saved sequence"},
		{"version", func(b []byte) []byte { b[8] = 1; return b }, "format version 1"},
		{"huge header", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[12:], 1<<31); return b }, "its header has 2147483648 bytes"},
		{"cut in header", func(b []byte) []byte { return b[:40] }, "in its header"},
		{"no JSON", func(b []byte) []byte { b[16] = '['; return b }, "does not parse"},
		{"cut in rows", func(b []byte) []byte { return b[:len(b)/2] }, "ends early"},
		{"no checksum", func(b []byte) []byte { return b[:len(b)-32] }, "ends early"},
		{"a bit of a row", func(b []byte) []byte { b[len(b)-100] ^= 4; return b }, "checksum"},
		{"a bit of the checksum", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "checksum"},
		{"header bytes", func(b []byte) []byte { i := bytes.Index(b, []byte(`,"page"`)); b[i-2] ^= 1; return b }, "another model"},
		{"model", head(func(h *sessionHeader) { h.Model = strings.Repeat("0", 64) }), "another model"},
		{"page", head(func(h *sessionHeader) { h.Page = 32 }), "pages hold 32"},
		{"layers", head(func(h *sessionHeader) { h.Layers = h.Layers[1:] }), "3 layers, here 4"},
		{"groups", head(func(h *sessionHeader) { h.Groups = nil }), "0 window groups"},
		{"K type", head(func(h *sessionHeader) { h.Layers[2].K.Type = "turbo3" }), `layer 2 K: saved as "turbo3", here "q8_0"`},
		{"V type", head(func(h *sessionHeader) { h.Layers[3].V.Type = "q8_0" }), `layer 3 V: saved as "q8_0", here "q4_0"`},
		{"head", head(func(h *sessionHeader) { h.Layers[0].K.HeadDim = 64 }), "heads of 64"},
		{"padding", head(func(h *sessionHeader) { h.Layers[0].V.Padded = 64 }), "padded to 64"},
		{"row", head(func(h *sessionHeader) { h.Layers[0].V.Row++ }), "rows of 19 bytes, here 18"},
		{"rotation", head(func(h *sessionHeader) { h.Layers[0].V.Form = "00" }), "another rotation"},
		{"KV heads", head(func(h *sessionHeader) { h.Layers[0].Heads = 7 }), "layer 0: another arrangement"},
		{"window", head(func(h *sessionHeader) { h.Groups[0].Window = 41 }), "a window of 41"},
		{"policy", head(func(h *sessionHeader) { h.Policy = 7 }), "layer policy 7, here 0"},
		{"negative", head(func(h *sessionHeader) { h.Len = -1 }), "a length of -1"},
		{"late rows", head(func(h *sessionHeader) { h.Groups[2].From = 64 }), "rows start at position 64; they must start at a page border up to 0"},
		{"odd rows", head(func(h *sessionHeader) { h.Groups[0].From = 3 }), "rows start at position 3;"},
		{"early rows", head(func(h *sessionHeader) { h.Groups[0].From = -64 }), "rows start at position -64;"},
		{"longer", head(func(h *sessionHeader) { h.Len += 64 }), "ends early"},
		{"points out of order", head(func(h *sessionHeader) { h.Points = []int{128, 64} }), "a point at 64 after 128"},
		{"a point between pages", head(func(h *sessionHeader) { h.Points = []int{70} }), "a point at 70"},
		{"a point at the end", head(func(h *sessionHeader) { h.Points = []int{64, h.Len} }), "a point at 305"},
		{"points without end", head(func(h *sessionHeader) {
			for i := range maxPoints + 1 {
				h.Points = append(h.Points, i+1)
			}
		}), "33 points, at most 32"},
		{"points of a version without", func(b []byte) []byte {
			b = reheader(t, b, func(h *sessionHeader) { h.Points = []int{64} })
			b[8] = 2
			return b
		}, "points in format version 2"},
		{"shorter", head(func(h *sessionHeader) { h.Len -= 64; h.Groups[0].From -= 64; h.Groups[1].From = 0 }), "checksum"},
	} {
		w := newTwin(t, "windows", 2)
		w.extend(t, 0, 30)
		if _, err := w.c.Verify(bytes.NewReader(c.change(slices.Clone(file))), w.m); !errors.Is(err, ErrSession) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: verified: %v, want %q", c.name, err, c.why)
		}
		w.check(t)
		err := w.c.Load(bytes.NewReader(c.change(slices.Clone(file))), 0, w.m)
		if !errors.Is(err, ErrSession) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
		w.values[0] = nil
		w.check(t)
	}
}

// Checkpoints are saved too: a loaded sequence can rewind like the saved one, as
// far as there is room.
func TestLoadCheckpoints(t *testing.T) {
	w := newTwin(t, "hybrid", 1)
	for range 4 {
		w.extend(t, 0, 50)
		if err := w.c.Checkpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	w.extend(t, 0, 7)
	var file bytes.Buffer
	if err := w.c.Save(&file, 0, w.m); err != nil {
		t.Fatal(err)
	}
	// Of five slots, the end of the loaded sequence uses one, and others may be
	// taken.
	for _, c := range []struct{ taken, pos, want int }{
		{0, 206, 200}, {0, 199, 150}, {0, 60, 50}, {3, 206, 200}, {3, 199, 150}, {3, 60, 50}, {0, 30, 0},
	} {
		n := newTwin(t, "hybrid", 2)
		for range c.taken {
			n.extend(t, 1, 20)
			if err := n.c.Checkpoint(1); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.c.Load(bytes.NewReader(file.Bytes()), 0, n.m); err != nil {
			t.Fatal(err)
		}
		n.values[0] = slices.Clone(w.values[0])
		n.check(t)
		if got := n.cutTo(t, 0, c.pos); got != c.want {
			t.Errorf("%d slots taken: cut to %d reached %d, want %d", c.taken, c.pos, got, c.want)
		}
	}
	for _, marks := range [][]int{{0}, {-5}, {50, 50}, {60, 50}, {207}, {1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		n := newTwin(t, "hybrid", 2)
		err := n.c.Load(bytes.NewReader(reheader(t, file.Bytes(), func(h *sessionHeader) { h.Marks = marks })), 0, n.m)
		if !errors.Is(err, ErrSession) || !strings.Contains(err.Error(), "checkpoint") {
			t.Errorf("checkpoints at %d: %v", marks, err)
		}
		n.check(t)
	}
}

// A length beyond the cache always gives ErrFull.
func TestLoadFull(t *testing.T) {
	_, file := saved(t, "full", 3)
	for _, n := range []int{641, 1 << 30, 1<<63 - 1} {
		w := newTwin(t, "full", 2)
		w.extend(t, 1, 10)
		err := w.c.Load(bytes.NewReader(reheader(t, file, func(h *sessionHeader) { h.Len = n })), 0, w.m)
		if !errors.Is(err, ErrFull) {
			t.Errorf("%d positions: %v", n, err)
		}
		w.check(t)
	}
}

// Errors of the reader, the writer and the memory are returned unchanged.
func TestSessionFaults(t *testing.T) {
	w, file := saved(t, "hybrid", 3)
	broken := errors.New("broken")
	if err := w.c.Save(failingWriter{broken}, 0, w.m); !errors.Is(err, broken) {
		t.Errorf("save: %v", err)
	}
	r := io.MultiReader(bytes.NewReader(file[:len(file)/2]), iotest.ErrReader(broken))
	if err := w.c.Load(r, 1, w.m); !errors.Is(err, broken) || w.c.Len(1) != 0 {
		t.Errorf("load: %v, %d positions", err, w.c.Len(1))
	}
	if err := w.c.Load(iotest.OneByteReader(bytes.NewReader(file)), 1, w.m); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
	if err := w.c.Load(bytes.NewReader(file), 2, rowsOnly{w.m}); err == nil || !strings.Contains(err.Error(), "recurrent") {
		t.Errorf("a memory without states: %v", err)
	}
	if err := w.c.Save(io.Discard, 0, wrongRows{w.m}); err == nil || !strings.Contains(err.Error(), "the memory holds rows of") {
		t.Errorf("a memory with other rows: %v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

type rowsOnly struct{ Rows }

type wrongRows struct{ *memory }

func (r wrongRows) RowBytes(layer int, s kv.Side, p layout.Tier) int {
	return r.memory.RowBytes(layer, s, p) + 1
}

// FuzzLoad checks that Load returns an error or a complete sequence for any bytes,
// and that the bookkeeping stays intact.
func FuzzLoad(f *testing.F) {
	for _, shape := range []string{"windows", "hybrid", "late"} {
		_, file := saved(f, shape, 3)
		f.Add(file)
		f.Add(file[:len(file)-7])
		f.Add(reheader(f, file, func(h *sessionHeader) { h.Len = 1 << 40 }))
		f.Add(reheader(f, file, func(h *sessionHeader) { h.Layers = append(h.Layers, h.Layers...) }))
	}
	_, file := saved(f, "late", 3)
	f.Add(reheader(f, file, func(h *sessionHeader) { h.Len, h.Groups[0].Exact, h.Groups[0].Unpacked = 0, []int{0}, 0 }))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, shape := range []string{"windows", "hybrid", "late"} {
			w := newTwin(t, shape, 2)
			w.extend(t, 1, 40)
			n, verified := w.c.Verify(bytes.NewReader(file), w.m)
			err := w.c.Load(bytes.NewReader(file), 0, w.m)
			if err != nil && w.c.Len(0) != 0 {
				t.Fatalf("%d positions after %v", w.c.Len(0), err)
			}
			if err == nil && n != w.c.Len(0) || !errors.Is(err, ErrFull) && (err == nil) != (verified == nil) {
				t.Fatalf("loaded %d positions, %v; verified %d, %v", w.c.Len(0), err, n, verified)
			}
			for g := range w.c.pools {
				w.checkPool(t, g)
			}
			w.checkSeq(t, 1)
		}
	})
}
