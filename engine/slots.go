package engine

import (
	"context"
	"errors"
	"io"

	"godwit/engine/kv/pages"
	"godwit/engine/sample"
	"godwit/engine/sched"
)

// Errors of requests and slots.
var (
	ErrTooLong = sched.ErrTooLong
	ErrClosed  = sched.ErrClosed
	ErrSlot    = sched.ErrSlot
	ErrSession = sched.ErrSession
	ErrFull    = pages.ErrFull // other sequences occupy the cells
	ErrBusy    = sched.ErrBusy // too many requests are waiting
	ErrLogits  = sample.ErrLogits
)

// Types of the scheduler.
type (
	TooLong  = sched.TooLong  // ErrTooLong with its numbers
	SlotInfo = sched.SlotInfo // contents of a slot
	View     = sched.View     // slots and usage, read without waiting
	Usage    = sched.Usage    // cells, queue and counters at one moment
	Step     = sched.Step     // one run of the device
)

// SlotMagic begins every saved slot.
const SlotMagic = sched.SlotMagic

// Slots describes the slots: the sequences that the cache holds.
func (e *Engine) Slots(ctx context.Context) ([]SlotInfo, error) { return e.sched.Slots(ctx) }

// Usage returns the current cells, queue and counters.
func (e *Engine) Usage(ctx context.Context) (Usage, error) { return e.sched.Usage(ctx) }

// View returns the state before the running step, or the current state between steps. It
// never waits for the device.
func (e *Engine) View() (View, error) { return e.sched.View() }

// SaveSlot writes the tokens and cells of an idle slot and returns the number of
// tokens.
func (e *Engine) SaveSlot(ctx context.Context, slot int, w io.Writer) (int, error) {
	return e.sched.Save(ctx, slot, w)
}

// RestoreSlot fills an idle slot with data from SaveSlot, which may come from
// another process. On an error the slot is left empty. RestoreSlot reads r twice if
// it has to free cells of other idle slots. Requests with the same salt can
// continue the slot.
func (e *Engine) RestoreSlot(ctx context.Context, slot int, salt string, r io.ReadSeeker) (int, error) {
	return e.sched.Restore(ctx, slot, salt, r)
}

// ReuseFrom returns the length of the shortest prefix of an idle slot's text that a
// prompt can reuse. A prompt that differs earlier is read in full.
func (e *Engine) ReuseFrom(ctx context.Context, slot int) (int, error) {
	return e.sched.ReuseFrom(ctx, slot)
}

// EraseText deletes a text from idle slots and stored prefixes. key comes from
// Request.Kept.
func (e *Engine) EraseText(ctx context.Context, key PrefixKey) error {
	return errors.Join(e.sched.EraseText(ctx, key), e.draft.forget(ctx))
}

// EraseSlot empties an idle slot.
func (e *Engine) EraseSlot(ctx context.Context, slot int) (int, error) {
	return e.sched.Erase(ctx, slot)
}
