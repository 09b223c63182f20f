package sched_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/engine/kv"
	"godwit/engine/kv/pages"
	"godwit/engine/sched"
)

// A slot of every cache type is restored byte for byte in another scheduler
// with other pages, and the next request reuses it.
func TestSaveRestore(t *testing.T) {
	for i, typ := range kv.Types() {
		t.Run(typ.Name, func(t *testing.T) {
			c := tiny{k: typ, v: typ, cells: 1024, seqs: 3, context: 512, rows: 32, window: 200, seed: 1}
			c.exact = []kv.Window{{}, {Newest: 64, Pinned: 4}, {Newest: 1}}[i%3]
			s, f := newTiny(t, c)
			prompt := text(5, 150)
			first := run(t, s, sched.Job{Prompt: prompt, Slot: 1}, 4)
			if first.err != nil {
				t.Fatal(first.err)
			}
			var file bytes.Buffer
			n, err := s.Save(t.Context(), 1, &file)
			if err != nil || n != 153 { // the last token has no cell
				t.Fatalf("saved %d tokens, %v", n, err)
			}
			c.seed = 99
			s2, f2 := newTiny(t, c)
			run(t, s2, sched.Job{Prompt: text(6, 70), Slot: 0}, 1)
			n, err = s2.Restore(t.Context(), 2, "", bytes.NewReader(file.Bytes()))
			if err != nil || n != 153 {
				t.Fatalf("restored %d tokens, %v", n, err)
			}
			var again bytes.Buffer
			if _, err := s2.Save(t.Context(), 2, &again); err != nil || !bytes.Equal(file.Bytes(), again.Bytes()) {
				t.Errorf("the restored slot is saved as %d other bytes, was %d, %v", again.Len(), file.Len(), err)
			}
			r := run(t, s2, sched.Job{Prompt: prompt, Slot: -1}, 4)
			if r.err != nil || r.stats.Cached != 128 || !slices.Equal(r.tokens, first.tokens) {
				t.Errorf("%d tokens reused, want 128; %v, want %v; %v", r.stats.Cached, r.tokens, first.tokens, r.err)
			}
			if len(f.taken()) == 0 || len(f2.taken()) == 0 {
				t.Error("no step was taken")
			}
		})
	}
}

// Files that are truncated, changed or made for something else are rejected
// with the reason. The slot is then empty and the scheduler continues.
func TestDamage(t *testing.T) {
	c := tiny{cells: 1024, seqs: 2, context: 512, rows: 32, seed: 1}
	s, _ := newTiny(t, c)
	prompt := text(5, 100)
	run(t, s, sched.Job{Prompt: prompt, Slot: 0}, 2)
	var file bytes.Buffer
	if _, err := s.Save(t.Context(), 0, &file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	check := func(what string, data []byte) {
		t.Helper()
		n, err := s.Restore(t.Context(), 1, "", bytes.NewReader(data))
		if !errors.Is(err, sched.ErrSession) || n != 0 {
			t.Errorf("%s: %d tokens, %v", what, n, err)
		}
		slots, err := s.Slots(t.Context())
		if err != nil || slots[1].Tokens != 0 {
			t.Errorf("%s: the slot holds %d tokens, %v", what, slots[1].Tokens, err)
		}
	}
	check("nothing", nil)
	check("no saved slot", []byte("GGUF file of another kind, long enough to be read"))
	for at := 0; at < len(whole); at += 1 + len(whole)/150 {
		check("cut", whole[:at])
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		check("changed", broken)
	}
	for _, other := range []tiny{
		{k: parse(t, "q8_0"), v: parse(t, "q8_0"), cells: 1024, seqs: 2, context: 512, rows: 32},
		{cells: 1024, seqs: 2, context: 512, rows: 32, window: 50},
		{cells: 1024, seqs: 2, context: 64, rows: 32},
	} {
		s2, _ := newTiny(t, other)
		if _, err := s2.Restore(t.Context(), 1, "", bytes.NewReader(whole)); !errors.Is(err, sched.ErrSession) {
			t.Errorf("into another cache: %v", err)
		}
	}
	ended(t, "afterwards", run(t, s, sched.Job{Prompt: prompt, Slot: 1}, 3), prompt, 3, 0)
}

// Restoring a slot drops slots without a job. If running answers hold all
// cells, it fails and they continue.
func TestRestoreMakesRoom(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 4, context: 512, rows: 64, seed: 1})
	prompt := text(5, 200)
	first := run(t, s, sched.Job{Prompt: prompt, Slot: 0}, 3)
	var file bytes.Buffer
	if _, err := s.Save(t.Context(), 0, &file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Erase(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		run(t, s, sched.Job{Prompt: text(uint64(10+i), 100), Slot: i}, 1)
	}
	if use, err := s.Usage(t.Context()); err != nil || use.Free != 0 {
		t.Fatalf("%d cells are free, %v; want a full cache", use.Free, err)
	}
	if n, err := s.Restore(t.Context(), 1, "", bytes.NewReader(file.Bytes())); err != nil || n != 202 {
		t.Fatalf("restored %d tokens, %v", n, err)
	}
	r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3)
	if r.err != nil || r.stats.Cached != 192 || !slices.Equal(r.tokens, first.tokens) {
		t.Errorf("%d tokens reused, want 192; %v, want %v; %v", r.stats.Cached, r.tokens, first.tokens, r.err)
	}
	running, tried := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wait := slowly(tried)
	long := text(9, 400)
	done, err := begin(t.Context(), s, sched.Job{Prompt: long, Slot: 0}, 100, func() {
		once.Do(func() { close(running) })
		wait() // the restore runs between two tokens
	})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	if n, err := s.Restore(t.Context(), 1, "", bytes.NewReader(file.Bytes())); !errors.Is(err, pages.ErrFull) || n != 0 {
		t.Errorf("restored %d tokens beside an answer that has all cells, %v", n, err)
	}
	close(tried)
	ended(t, "the answer", <-done, long, 100, 0)
}

// A file that cannot be restored does not cause a full cache to drop other
// slots, wherever the fault is.
func TestRestoreSparesOthers(t *testing.T) {
	c := tiny{cells: 512, seqs: 4, context: 1024, rows: 64, seed: 1}
	save := func(c tiny, n int) []byte {
		t.Helper()
		s, _ := newTiny(t, c)
		run(t, s, sched.Job{Prompt: text(5, n), Slot: 0}, 1)
		var file bytes.Buffer
		if _, err := s.Save(t.Context(), 0, &file); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	whole, shorter := save(c, 300), save(c, 299)
	bit := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 4
		return b
	}
	larger, window, q8 := c, c, c
	larger.cells, window.window = 1024, 50
	q8.k, q8.v = parse(t, "q8_0"), parse(t, "q8_0")
	s, _ := newTiny(t, c)
	for i := range 4 {
		run(t, s, sched.Job{Prompt: text(uint64(10+i), 100), Slot: i}, 1)
	}
	for _, f := range []struct {
		name string
		file []byte
		why  string
	}{
		{"a token", bit(len(sched.SlotMagic) + 8), "checksum of the tokens"},
		{"a row", bit(len(whole) / 2), "checksum"},
		{"the checksum", bit(len(whole) - 1), "checksum"},
		{"cut", whole[:len(whole)-40], "ends early"},
		{"a byte more", append(bytes.Clone(whole), 0), "after its end"},
		{"longer than all cells", save(larger, 600), "its 600 tokens do not fit into the context of 512"},
		{"another type", save(q8, 300), `saved as "q8_0"`},
		{"another window", save(window, 300), "window"},
		{"tokens of another", slices.Concat(whole[:len(sched.SlotMagic)+4+4*300+4], shorter[len(sched.SlotMagic)+4+4*299+4:]), "300 tokens, but 299 cells"},
	} {
		n, err := s.Restore(t.Context(), 0, "", bytes.NewReader(f.file))
		if !errors.Is(err, sched.ErrSession) || !strings.Contains(err.Error(), f.why) || n != 0 {
			t.Errorf("%s: %d tokens, %v, want %q", f.name, n, err, f.why)
		}
		slots, err := s.Slots(t.Context())
		if err != nil || slots[0].Tokens != 0 {
			t.Errorf("%s: the slot holds %d tokens, %v", f.name, slots[0].Tokens, err)
		}
		for _, sl := range slots[1:] {
			if sl.Tokens != 100 {
				t.Fatalf("%s: slot %d holds %d tokens, want its 100", f.name, sl.Slot, sl.Tokens)
			}
		}
	}
	if n, err := s.Restore(t.Context(), 0, "", bytes.NewReader(whole)); err != nil || n != 300 {
		t.Errorf("restored %d tokens, %v", n, err)
	}
	// There is room for the tokens, but not for the cells that the damaged
	// header claims.
	b := bytes.Replace(whole, []byte(`"len":300`), []byte(`"len":900`), 1)
	if n, err := s.Restore(t.Context(), 0, "", bytes.NewReader(b)); !errors.Is(err, sched.ErrSession) || errors.Is(err, pages.ErrFull) || n != 0 {
		t.Errorf("another length in the header: %d tokens, %v", n, err)
	}
}

// Busy slots and invalid slot numbers are rejected and nothing changes.
func TestSlotErrors(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 1024, seqs: 2, context: 512, rows: 32, seed: 1})
	running, tried := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wait := slowly(tried)
	done, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 10), Slot: 0}, 400, func() {
		once.Do(func() { close(running) })
		wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	var file bytes.Buffer
	for _, slot := range []int{0, -1, 2} {
		if _, err := s.Save(t.Context(), slot, &file); !errors.Is(err, sched.ErrSlot) || file.Len() > 0 {
			t.Errorf("save of slot %d: %v, %d bytes", slot, err, file.Len())
		}
		if _, err := s.Restore(t.Context(), slot, "", bytes.NewReader(nil)); !errors.Is(err, sched.ErrSlot) {
			t.Errorf("restore of slot %d: %v", slot, err)
		}
		if _, err := s.Erase(t.Context(), slot); !errors.Is(err, sched.ErrSlot) {
			t.Errorf("erase of slot %d: %v", slot, err)
		}
	}
	close(tried)
	<-done
	n, err := s.Erase(t.Context(), 0)
	if err != nil || n != 409 {
		t.Errorf("erased %d tokens, %v; want 409", n, err)
	}
	use, err := s.Usage(t.Context())
	if err != nil || use.Free != 1024 {
		t.Errorf("%d cells are free, %v; want all 1024", use.Free, err)
	}
}

// FuzzRestore feeds arbitrary files.
func FuzzRestore(f *testing.F) {
	c := tiny{cells: 256, seqs: 2, context: 128, rows: 32, seed: 1}
	s, _ := newTiny(f, c)
	run(f, s, sched.Job{Prompt: text(5, 40), Slot: 0}, 2)
	var file bytes.Buffer
	if _, err := s.Save(f.Context(), 0, &file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(sched.SlotMagic))
	f.Add(file.Bytes()[:300])
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := s.Restore(t.Context(), 1, "", bytes.NewReader(data))
		if err == nil && !bytes.HasPrefix(data, file.Bytes()) {
			t.Errorf("%d tokens of a file that was not saved", n)
		}
	})
}

// A view never waits for the running step, and shows the step's jobs.
func TestViewDuringStep(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 2, context: 256, rows: 16})
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	done, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 20), Slot: -1}, 3, func() {
		if first {
			first = false
			close(begun)
			<-release
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	got := make(chan sched.View, 1)
	go func() {
		v, err := s.View()
		if err != nil {
			t.Error(err)
		}
		got <- v
	}()
	select {
	case v := <-got:
		busy := 0
		for _, sl := range v.Slots {
			if sl.Busy {
				busy++
			}
		}
		if len(v.Slots) != 2 || busy != 1 || v.Free >= 512 {
			t.Errorf("during the step: %+v", v)
		}
	case <-time.After(10 * time.Second):
		t.Error("the view waits for the step")
	}
	close(release)
	<-done
	v, err := s.View()
	if err != nil || v.Slots[0].Busy || v.Slots[1].Busy || v.Slots[0].Tokens+v.Slots[1].Tokens < 20 || len(v.Counts) != 2 {
		t.Errorf("after the job: %+v, %v", v, err)
	}
	s.Close()
	if _, err := s.View(); !errors.Is(err, sched.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
