package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/sample"
	"godwit/engine/testmodel"
)

// kvType returns a cache type by name.
func kvType(t *testing.T, name string) *kv.Type {
	t.Helper()
	k, err := kv.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// openDrafted loads a model with a draft model.
func openDrafted(t *testing.T, path, draft string, types ...*kv.Type) *engine.Engine {
	t.Helper()
	o := engine.Options{Context: 1024, Parallel: 3, Draft: engine.Draft{Path: draft}, CalibrateLater: true}
	if len(types) > 0 {
		o.Want = layout.Want{K: types[0], V: types[1]}
	}
	e, err := engine.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// draftRequests are requests with several samplers and limits.
func draftRequests(n int) (list []engine.Request) {
	for i, s := range []sample.Params{
		{Temperature: 0}, {Temperature: 0.8, Seed: 7}, {Temperature: 0, RepeatPenalty: 1.3, RepeatLastN: 64},
	} {
		list = append(list, engine.Request{Prompt: fmt.Sprintf("Tell me about a river, part %d. ", i), MaxTokens: n, Sampling: s})
	}
	return list
}

// TestDraftModel compares answers with and without a draft model: of one request and of
// several at once, with the model itself as a draft, which is nearly always right, and
// with another one, which hardly ever is.
func TestDraftModel(t *testing.T) {
	smol := testmodel.SmolLM2(t)
	types := func(k, v string) []*kv.Type { return []*kv.Type{kvType(t, k), kvType(t, v)} }
	for _, c := range []struct {
		name, model, draft string
		types              []*kv.Type
		agrees             bool
	}{
		{"itself", smol, smol, nil, true},
		{"itself, gw3", smol, smol, types("gw3", "gw3"), false},
		{"itself, q8_0 and turbo3", smol, smol, types("q8_0", "turbo3"), false},
		{"another", testmodel.Small(t, "llama-hd64"), testmodel.Small(t, "llama-hd256-linear"), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, drafted := openDrafted(t, c.model, "", c.types...), openDrafted(t, c.model, c.draft, c.types...)
			drafted.DraftFreely()
			const n = 40
			list := draftRequests(n)
			want := make([]string, len(list))
			for i, r := range list {
				var err error
				if want[i], _, err = plain.Answer(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				got, res, err := drafted.Answer(t.Context(), r)
				if err != nil || got != want[i] {
					t.Errorf("request %d: %q, %v, want %q", i, got, err, want[i])
				}
				if c.agrees && i == 0 && (res.Drafted < n/4 || res.Accepted < res.Drafted*3/4) {
					t.Errorf("%d of %d drafted tokens were accepted", res.Accepted, res.Drafted)
				}
			}
			var all sync.WaitGroup
			for i, r := range list {
				all.Go(func() {
					r.Private = i == 1
					got, _, err := drafted.Answer(t.Context(), r)
					if err != nil || got != want[i] {
						t.Errorf("request %d of several: %q, %v, want %q", i, got, err, want[i])
					}
				})
			}
			all.Wait()
		})
	}
}

// TestDraftPrivate leaves nothing of private requests in the draft model, and nothing of
// others once a text is erased.
func TestDraftPrivate(t *testing.T) {
	smol := testmodel.SmolLM2(t)
	e := openDrafted(t, smol, smol)
	e.DraftFreely()
	var all sync.WaitGroup
	for _, r := range draftRequests(24) {
		all.Go(func() {
			r.Private = true
			if _, res, err := e.Answer(t.Context(), r); err != nil || res.Drafted == 0 {
				t.Errorf("%d tokens drafted, %v", res.Drafted, err)
			}
		})
	}
	all.Wait()
	if list := e.DraftTokens(t); slices.Max(list) > 0 {
		t.Errorf("after private requests, the slots of the draft model hold %v tokens", list)
	}
	if _, _, err := e.Answer(t.Context(), draftRequests(8)[0]); err != nil || slices.Max(e.DraftTokens(t)) == 0 {
		t.Errorf("the draft model forgot a text that is not private, %v", err)
	}
	if err := e.EraseText(t.Context(), engine.PrefixKey{}); err != nil || slices.Max(e.DraftTokens(t)) > 0 {
		t.Errorf("after a text was erased, its slots hold %v tokens, %v", e.DraftTokens(t), err)
	}
}

// TestDraftRefused names the reason why a model cannot propose tokens.
func TestDraftRefused(t *testing.T) {
	smol := testmodel.SmolLM2(t)
	for path, want := range map[string]string{
		testmodel.Gemma3(t):              "another vocabulary",
		smol + ".none":                   "no such file",
		testmodel.Small(t, "llama-hd64"): "another vocabulary",
	} {
		e, err := engine.Open(t.Context(), smol, engine.Options{Context: 256, Draft: engine.Draft{Path: path}})
		if err == nil {
			e.Close()
		}
		if !errors.Is(err, engine.ErrDraft) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestDraftPlan counts the draft model in the memory of a load.
func TestDraftPlan(t *testing.T) {
	smol := testmodel.SmolLM2(t)
	m, err := engine.OpenModel(smol)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := engine.Options{Context: 2048}
	alone, err := m.Prepare(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	o.Draft = engine.Draft{Path: smol, Want: layout.Want{K: kvType(t, "q8_0"), V: kvType(t, "q8_0")}}
	free := alone.Need.Total() + 1<<20
	_, err = m.Prepare(o, free)
	var lack *engine.MemoryError
	if !errors.As(err, &lack) || lack.Wanted < 3*alone.Need.Weights/2 || lack.Largest >= 2048 {
		t.Errorf("two models in the memory of one: %v", err)
	}
	plan, err := m.Plan("smol", o)
	if err != nil || plan.Draft == nil || plan.Draft.Ctx != 2048 || plan.Draft.Layers[0].K.Active != "q8_0" {
		t.Errorf("plan of the draft model: %+v, %v", plan.Draft, err)
	}
}
