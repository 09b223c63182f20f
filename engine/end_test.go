package engine

import (
	"strings"
	"testing"

	"godwit/engine/sched"
	"godwit/engine/testmodel"
)

// A base model has no chat template and no token for the end of a turn, so it ends a
// turn with text. This text ends the answer and is not part of it.
func TestTurnEndsAsText(t *testing.T) {
	e, err := Open(t.Context(), testmodel.Gemma3(t), Options{Context: 512, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, stops := range [][]string{nil, {"<|im_end|>"}} {
		r := Request{Chat: &Chat{Messages: []byte(`[{"role":"user","content":"What is the capital of France?"}]`)}, Stop: stops}
		g, err := e.newGeneration(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		more := true
		for _, id := range g.tok.EncodeText("Paris<|im_end|>\nand more", false, false) {
			if !more {
				break
			}
			logits := make([]float32, e.Config().Vocab)
			logits[id] = 1
			if _, more, err = g.next(logits); err != nil {
				t.Fatal(err)
			}
		}
		g.done(sched.Stopped, sched.Stats{}, nil)
		events, _ := g.out.receive()
		var text strings.Builder
		for _, ev := range events {
			text.WriteString(ev.Text)
		}
		if res := events[len(events)-1].Result; more || text.String() != "Paris" || res.Finish != FinishStop || res.Stop != strings.Join(stops, "") {
			t.Errorf("answer %q, %+v", text.String(), res)
		}
	}
}
