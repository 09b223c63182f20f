package layout

import (
	"fmt"
	"log/slog"
	"math/bits"

	"godwit/engine/kv"
)

// signal is one step of the head-size cascade.
type signal struct {
	name string
	dim  int
}

// cascade lists the signals of a layer, most trusted first. In a layer with a
// window, the key for windowed layers comes first. Source: spec kv-policies.md
// section 7.
func (in *LayerInfo) cascade() []signal {
	s := &in.Signals
	list := []signal{
		{"attention.key_length", s.KeyLength},
		{"attention.key_length_mla", s.KeyLengthMLA},
		{"attention.key_length_swa", s.KeyLengthSWA},
		{"attention.value_length", s.ValueLength},
		{"embedding_length/attention.head_count", s.computed()},
	}
	if in.Window > 0 {
		list[0], list[1], list[2] = list[2], list[0], list[1]
	}
	return list
}

// computed returns the head size computed from the embedding, or 0 if the division
// leaves a remainder.
func (s *Signals) computed() int {
	if s.Heads <= 0 || s.Embd%s.Heads != 0 {
		return 0
	}
	return s.Embd / s.Heads
}

// signals sets the head sizes of a layer that its weights did not give, and
// rejects a file whose metadata contradicts its weights.
func (r *resolver) signals(in *LayerInfo) error {
	if in.Signals == (Signals{}) {
		return nil
	}
	var win signal
	for _, s := range in.cascade() {
		if s.dim > 0 {
			win = s
			break
		}
	}
	r.logSignals(in, win)
	switch {
	case win.dim == 0:
		return nil
	case in.HeadDimK == 0:
		in.HeadDimK = win.dim
	case in.HeadDimK != win.dim:
		return fmt.Errorf("%w: layer %d: %s is %d, but the weights of K have %d", kv.ErrHead, in.Layer, win.name, win.dim, in.HeadDimK)
	}
	if v := in.Signals.ValueLength; in.HeadDimV == 0 {
		in.HeadDimV = in.HeadDimK
		if v > 0 && supported(v) {
			in.HeadDimV = v
		}
	}
	return nil
}

// supported reports whether tbq names support a head size.
func supported(dim int) bool { return dim == 576 || bits.OnesCount(uint(dim)) == 1 }

// logSignals reports once per load which signals there are and whether they agree.
// The level is above debug only if a tbq name depends on them.
func (r *resolver) logSignals(in *LayerInfo, win signal) {
	if r.logged {
		return
	}
	r.logged = true
	quiet := !r.want.K.Rules.ByHead && !r.want.V.Rules.ByHead
	level := func(l slog.Level) slog.Level {
		if quiet {
			return slog.LevelDebug
		}
		return l
	}
	s := &in.Signals
	r.event(level(slog.LevelInfo), fmt.Sprintf("kv: head size %d from %s (key %d, key mla %d, key swa %d, value %d, computed %d)",
		win.dim, win.name, s.KeyLength, s.KeyLengthMLA, s.KeyLengthSWA, s.ValueLength, s.computed()))
	if c := s.computed(); c > 0 && win.dim > 0 && c != win.dim {
		l := slog.LevelWarn
		if win.dim == s.KeyLengthMLA || win.dim == s.KeyLengthSWA {
			l = slog.LevelInfo
		}
		r.event(level(l), fmt.Sprintf("kv: head size %d contradicts %d computed from the embedding", win.dim, c))
	}
	if v := s.ValueLength; v > 0 && v != win.dim {
		r.event(level(slog.LevelInfo), fmt.Sprintf("kv: K heads of %d, V heads of %d", win.dim, v))
	}
}
