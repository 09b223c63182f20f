package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/sched"
)

// brokenRows replaces every row of a saved slot with bytes that decode to NaN in any
// float type, and sets the right checksum.
func brokenRows(saved []byte) []byte {
	saved = slices.Clone(saved)
	n := len(sched.SlotMagic)
	n += 4 + 4*int(binary.LittleEndian.Uint32(saved[n:])) + 4 // count, ids, checksum
	cells := saved[n:]
	rows := cells[16+binary.LittleEndian.Uint32(cells[12:]) : len(cells)-sha256.Size]
	for i := range rows {
		rows[i] = 0xff
	}
	sum := sha256.Sum256(cells[:len(cells)-sha256.Size])
	copy(cells[len(cells)-sha256.Size:], sum[:])
	return saved
}

// A saved slot with NaN rows and the right checksum affects at most one answer,
// which ends with an error. Its cells are dropped, and the same question is then
// answered from scratch.
func TestBrokenSlot(t *testing.T) {
	spoilt := 0
	for _, m := range smallModels(t) {
		i := slices.IndexFunc(m.Runs, func(r tinyRun) bool { return r.Prompt == "p700" })
		if i < 0 {
			continue
		}
		prompt := m.Runs[i].Tokens[:200]
		for _, types := range [][2]string{{"f16", "f16"}, {"q8_0", "q4_1"}, {"turbo4", "turbo3"}} {
			t.Run(m.Name+" "+types[0], func(t *testing.T) {
				e := open(t, m.small(t), 256, types[0], types[1], engine.Options{Threads: 1, NoCalibration: true})
				request := engine.Request{Tokens: prompt, MaxTokens: 4, IgnoreEOG: true}
				_, first, err := e.Answer(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				var saved bytes.Buffer
				if _, err := e.SaveSlot(t.Context(), first.Slot, &saved); err != nil {
					t.Fatal(err)
				}
				if _, err := e.RestoreSlot(t.Context(), 0, "", bytes.NewReader(brokenRows(saved.Bytes()))); err != nil {
					t.Fatal(err)
				}
				_, _, err = e.Answer(t.Context(), request)
				if err == nil {
					return // the NaN has no effect, because attention treats it as the smallest number
				}
				spoilt++
				if !errors.Is(err, engine.ErrLogits) {
					t.Fatal(err)
				}
				_, again, err := e.Answer(t.Context(), request)
				if err != nil {
					t.Fatalf("the answer behind it: %v", err)
				}
				if !slices.Equal(again.Tokens, first.Tokens) {
					t.Errorf("%v behind it, %v before", again.Tokens, first.Tokens)
				}
			})
		}
	}
	if spoilt == 0 {
		t.Error("no answer was spoilt: recurrent states of NaN give NaN")
	}
}
