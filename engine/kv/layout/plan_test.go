package layout

import (
	"encoding/json"
	"strings"
	"testing"
)

// Checks the JSON shape that scripts read. Keys are only ever added.
func TestPlanJSON(t *testing.T) {
	layers := model(3, 14, 2, 64)
	layers[1].Cached, layers[1].StateBytes = false, 100
	l := resolve(t, want(t, "turbo3", "turbo3"), layers, Settings{Cells: 100, Seqs: 1})
	p := NewPlan(&l, "m.gguf", 100)
	p.Layers[0].SparseV = SparseV{10, 3}
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m.gguf","ctx":100,"wanted":{"k":"turbo3","v":"turbo3"},"policy":0,"layers":[` +
		`{"layer":0,"k":{"wanted":"turbo3","active":"q8_0","reason":"7 query heads for each KV head, 14 of 2; opt out: TURBO_AUTO_ASYMMETRIC=0","bytes":17408,"head_dim":64,"padded":64,"row_bytes":136,"exact":"","exact_bytes":0,"saturated":0,"channels":"","sensitivity":0},` +
		`"v":{"wanted":"turbo3","active":"turbo3","reason":"head 64 padded to 128","bytes":12800,"head_dim":64,"padded":128,"row_bytes":100,"exact":"","exact_bytes":0,"saturated":0,"channels":"","sensitivity":0},` +
		`"sparse_v":{"considered":10,"skipped":3},"kv_heads":2,"window":0,"cells":128,"exact_window":0,"exact_sinks":0},` +
		`{"layer":2,"k":{"wanted":"turbo3","active":"q8_0","reason":"7 query heads for each KV head, 14 of 2; opt out: TURBO_AUTO_ASYMMETRIC=0","bytes":17408,"head_dim":64,"padded":64,"row_bytes":136,"exact":"","exact_bytes":0,"saturated":0,"channels":"","sensitivity":0},` +
		`"v":{"wanted":"turbo3","active":"turbo3","reason":"head 64 padded to 128","bytes":12800,"head_dim":64,"padded":128,"row_bytes":100,"exact":"","exact_bytes":0,"saturated":0,"channels":"","sensitivity":0},` +
		`"sparse_v":{"considered":0,"skipped":0},"kv_heads":2,"window":0,"cells":128,"exact_window":0,"exact_sinks":0}],` +
		`"bytes":60416,"bytes_f16":131072,"passing_bytes":0,"exact_alone":0,"state_bytes":300,"events":[`
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got\n%s\nwant\n%s…", got, want)
	}
	empty := resolve(t, Want{}, nil, Settings{Cells: 64})
	if got, err := json.Marshal(NewPlan(&empty, "", 0)); err != nil || strings.Contains(string(got), "null") {
		t.Errorf("%s (%v)", got, err)
	}
}
