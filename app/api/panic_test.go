package api

import (
	"strings"
	"testing"

	"godwit/app/api/wire"
	"godwit/engine"
)

// panics is a call that panics when it is translated.
type panics struct{ wire.Call }

func (panics) Head() wire.Head { return wire.Head{} }

func (panics) Requests(*wire.Model) ([]engine.Request, error) { panic("a broken call") }

// A panic in an answer becomes that answer's error, and the next answer is normal.
func TestPanic(t *testing.T) {
	v := shared(t)
	items := make(chan item)
	go v.produce(t.Context(), panics{}, wire.Whose{}, items)
	var last error
	for it := range items {
		last = it.err
	}
	if last == nil || !strings.Contains(last.Error(), "a broken call") {
		t.Errorf("error %v, want the panic's", last)
	}
	if m := v.post("/v1/chat/completions", object{"messages": user("a"), "max_tokens": 1}); at(m, "choices", 0) == nil {
		t.Errorf("behind a panic: %v", m)
	}
}
