package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

type listed struct {
	Fields []setting `json:"fields"`
}

func (l listed) of(name string) (setting, bool) {
	for _, f := range l.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return setting{}, false
}

func TestSettings(t *testing.T) {
	dir := newFolder(t, false)
	var level string
	d := openAs(t, dir, func(s *config.Settings) { s.Engine.Threads = 3 }, func(o *Options, _ *hub.Options) {
		o.Level = func(l string) error { level = l; return nil }
	})
	list := ask[listed](d, "GET", "/app/settings", nil)
	if f, _ := list.of("engine.threads"); f.Origin != config.FromFlag || f.Value != 3.0 {
		t.Errorf("a flag shows as %+v", f)
	}
	for _, name := range []string{"app.welcomed", "engine.batch_size"} {
		if f, ok := list.of(name); ok {
			t.Errorf("%s is hidden, or changes nothing, and is listed: %+v", name, f)
		}
	}
	if f, _ := list.of("engine.attn_math"); !slices.Equal(f.Choices, []string{"auto", "float"}) {
		t.Errorf("attn_math offers %v", f.Choices)
	}
	for _, name := range []string{"engine.ctx_size", "engine.cache_type_k", "engine.sparse_v", "sampling.temperature", "server.port", "app.theme"} {
		if _, ok := list.of(name); !ok {
			t.Errorf("%s is not listed", name)
		}
	}
	changes := map[string]any{"engine.ctx_size": 2048, "app.log_level": "debug", "server.api_key": []string{"sk-secret"}, "app.theme": "dark"}
	list = ask[listed](d, "POST", "/app/settings", map[string]any{"changes": changes})
	if f, _ := list.of("engine.ctx_size"); f.Origin != config.FromFile || f.Value != 2048.0 {
		t.Errorf("saved: %+v", f)
	}
	if f, _ := list.of("server.api_key"); f.Value != nil || !f.Given {
		t.Errorf("a key is shown: %+v", f)
	}
	if level != "debug" {
		t.Errorf("log level %q", level)
	}
	if status, _ := d.refused("POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.threads": 2}}); status != http.StatusBadRequest {
		t.Errorf("a setting that the command line holds: %d", status)
	}
	text := func() string {
		_, body := d.do("GET", "/app/diagnostics", nil)
		return string(body)
	}()
	if !strings.Contains(text, "engine.ctx_size = 2048") || strings.Contains(text, "sk-secret") {
		t.Errorf("diagnostics:\n%s", text)
	}
	// Impossible settings are neither used nor written to the file.
	for _, wrong := range []map[string]any{{"library.hub_url": "not an address"}, {"server.chat_template_kwargs": "[1]"}, {"engine.ctx_size": 4096, "app.theme": "pink"}} {
		if status, text := d.refused("POST", "/app/settings", map[string]any{"changes": wrong}); status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", wrong, status, text)
		}
		for name := range wrong {
			if f, _ := ask[listed](d, "GET", "/app/settings", nil).of(name); f.Value == wrong[name] {
				t.Errorf("%s was saved", name)
			}
		}
	}
	folder := filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "lost.gguf"), []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask[listed](d, "POST", "/app/settings", map[string]any{"changes": map[string]any{"library.folders": []string{folder}}})
	if m, ok := d.library.find("lost"); !ok || m.Error == "" {
		t.Errorf("a folder that was added is listed as %+v", d.list())
	}
	list = ask[listed](d, "POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.ctx_size": nil}})
	if f, _ := list.of("engine.ctx_size"); f.Origin != config.FromDefault {
		t.Errorf("taken out: %+v", f)
	}
}

// TestStale loads a model, changes a load setting, and reloads.
func TestStale(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	wait := func(what string, ok func(m model) bool) {
		t.Helper()
		d.events("/app/events", func(name, _ string) bool {
			return name != "models" || !ok(d.list()[0])
		})
		if m := d.list()[0]; !ok(m) {
			t.Fatalf("%s: %+v", what, m)
		}
	}
	at := "/app/models/" + modelName
	ask[any](d, "POST", at+"/load", nil)
	wait("loaded", func(m model) bool { return m.State == pool.Loaded })
	if m := d.list()[0]; m.Stale || m.Context != 1024 || m.Bytes <= m.Size {
		t.Errorf("fresh: %+v", m)
	}
	ask[any](d, "POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.ctx_size": 512, "engine.cache_type_k": "q8_0"}})
	if m := d.list()[0]; !m.Stale {
		t.Errorf("after a change: %+v", m)
	}
	ask[any](d, "POST", at+"/reload", nil)
	wait("reloaded", func(m model) bool { return m.State == pool.Loaded && m.Context == 512 })
	plan := ask[layout.Plan](d, "GET", "/app/kv/active?model="+modelName, nil)
	if d.list()[0].Stale || plan.Ctx != 512 || plan.Wanted.K != "q8_0" || plan.Layers[0].K.Active != "q8_0" {
		t.Errorf("reloaded: %+v", plan.Wanted)
	}
	ask[any](d, "POST", at+"/unload", nil)
	wait("unloaded", func(m model) bool { return m.State == pool.Unloaded })
	if status, _ := d.refused("GET", "/app/kv/active?model="+modelName, nil); status != http.StatusConflict {
		t.Errorf("the cache of an unloaded model: %d", status)
	}
}

// TestCancelLoad stops a load, which does not count as a failure, and loads again.
func TestCancelLoad(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	d := open(t, newFolder(t, true), func(o *Options, _ *hub.Options) {
		plain := o.Engine
		var once sync.Once
		o.Engine = func(c *config.Engine) (engine.Options, error) {
			e, err := plain(c)
			e.Progress = func(float64) error {
				once.Do(func() { close(reading) })
				<-goOn
				return nil
			}
			return e, err
		}
	})
	at := "/app/models/" + modelName
	ask[any](d, "POST", at+"/load", nil)
	<-reading
	ask[any](d, "POST", at+"/cancel", nil)
	close(goOn)
	m, _ := d.lookUp(modelName)
	for d.models.Standing(m.Path).State == pool.Loading {
		time.Sleep(time.Millisecond)
	}
	if st := d.models.Standing(m.Path); st.State != pool.Failed || !errors.Is(st.Err, pool.ErrStopped) {
		t.Errorf("a load that is not wanted continues: %s, %v", st.State, st.Err)
	}
	if m := d.list()[0]; m.State != pool.Unloaded || m.Failure != "" {
		t.Errorf("the page shows %s, %q", m.State, m.Failure)
	}
	lease, err := d.models.Acquire(t.Context(), m, pool.Terms{})
	if err != nil {
		t.Fatalf("the next load is ended too: %v", err)
	}
	lease.Release()
}

// TestPlanMemory plans the memory of one chat. The panel gets the possible sizes and the
// exact window at each length. The error for a smaller size gives the smallest possible one.
func TestPlanMemory(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	plan := func(memory any) outlook {
		t.Helper()
		return ask[outlook](d, "POST", "/app/kv/plan", map[string]any{"model": modelName, "changes": map[string]any{
			"engine.cache_type_k": "q8_0", "engine.cache_type_v": "q4_0", "engine.ctx_size": 4096, "engine.kv_memory": memory,
		}})
	}
	off := plan(0)
	if len(off.Exact) != 0 || off.Chat.Least <= 0 || off.Chat.Most <= off.Chat.Least {
		t.Fatalf("off: %+v, exact %v", off.Chat, off.Exact)
	}
	for _, memory := range []int64{off.Chat.Least, (off.Chat.Least + off.Chat.Most) / 2, off.Chat.Most - 1, off.Chat.Most} {
		out := plan(memory)
		if out.Chat != off.Chat || out.Plan.Memory != memory || len(out.Exact) != len(out.Lengths) {
			t.Fatalf("%d: %+v, plan %d, exact %v", memory, out.Chat, out.Plan.Memory, out.Exact)
		}
		all := true
		for i, n := range out.Lengths {
			all = all && (n > 4096 || out.Exact[i] == n)
		}
		if all != (memory == off.Chat.Most) || out.Exact[0] != out.Lengths[0] {
			t.Errorf("%d of %d bytes: at %v the newest %v are exact", memory, off.Chat.Most, out.Lengths, out.Exact)
		}
	}
	status, body := d.do("POST", "/app/kv/plan", map[string]any{"model": modelName, "changes": map[string]any{
		"engine.cache_type_k": "q8_0", "engine.ctx_size": 4096, "engine.kv_memory": 1000,
	}})
	if status != http.StatusBadRequest || !bytes.Contains(body, []byte("kv_memory")) || !bytes.Contains(body, []byte("4096 tokens in 1000 bytes; at least")) {
		t.Errorf("%d %s", status, body)
	}
}

// TestPlan compares the panel's data with the engine's.
func TestPlan(t *testing.T) {
	dir := newFolder(t, true)
	d := open(t, dir, nil)
	changes := map[string]any{"engine.cache_type_k": "q8_0", "engine.cache_type_v": "q4_0", "engine.ctx_size": 4096}
	out := ask[outlook](d, "POST", "/app/kv/plan", map[string]any{"model": modelName, "changes": changes})
	want, err := engine.ParseCacheTypes("q8_0", "q4_0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "models", modelName+".gguf")
	for i, n := range out.Lengths {
		plan, err := engine.PlanFile(path, modelName, engine.Options{Context: n, Parallel: 4, UBatch: 128, Want: want})
		if err != nil {
			t.Fatal(err)
		}
		if out.Curves[0].Bytes[i] != plan.Bytes {
			t.Errorf("at %d tokens the curve has %d bytes, the plan %d", n, out.Curves[0].Bytes[i], plan.Bytes)
		}
		if i > 0 && out.Lengths[i-1] >= n {
			t.Errorf("length %d after %d", n, out.Lengths[i-1])
		}
	}
	if out.Plan.Ctx != 4096 || out.Plan.Wanted.K != "q8_0" || out.Context != 8192 || out.Lengths[len(out.Lengths)-1] != 8192 {
		t.Errorf("plan %d tokens, K %s, model %d", out.Plan.Ctx, out.Plan.Wanted.K, out.Context)
	}
	if f16 := out.Curves[2]; f16.K != "f16" || f16.Bytes[0] <= out.Curves[0].Bytes[0] {
		t.Errorf("f16: %+v", f16)
	}
	if most := out.Curves[0].Most; out.Budget > 0 && (most <= 0 || most > 8192) {
		t.Errorf("largest context %d", most)
	}
	types := ask[struct {
		Types   []cacheType
		Presets []preset
	}](d, "GET", "/app/kv/types?model="+modelName, nil)
	if len(types.Types) != len(kv.Types()) || len(types.Presets) != len(layout.Presets()) {
		t.Errorf("%d types, %d presets", len(types.Types), len(types.Presets))
	}
	for i, p := range types.Presets {
		if p.Note == "" || p.Bytes <= 0 || i > 0 && p.Bytes >= types.Presets[0].Bytes {
			t.Errorf("preset %+v", p)
		}
	}
	for _, c := range types.Types {
		if c.K.Bytes <= 0 || c.V.Bytes <= 0 || c.Group == "" || c.Bits <= 0 {
			t.Errorf("type %+v", c)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, most := range []int{1, 63, 64, 100, 1024, 8192, 131072, 1 << 20} {
		planned := (most + 2) / 3
		list := lengths(most, planned)
		if !slices.Contains(list, planned) {
			t.Errorf("%d: %d is not among %v", most, planned, list)
		}
		if list[len(list)-1] != most {
			t.Errorf("%d: ends at %d", most, list[len(list)-1])
		}
		for i, n := range list {
			if n <= 0 || n > most || i > 0 && n <= list[i-1] {
				t.Errorf("%d: %v", most, list)
			}
		}
	}
}

func TestUpload(t *testing.T) {
	dir := newFolder(t, true)
	d := open(t, dir, nil)
	data, err := os.ReadFile(filepath.Join(dir, "models", modelName+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	post := func(name string, data string) int {
		r, err := http.NewRequest(http.MethodPost, d.url+"/app/library/upload?name="+name, strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+d.token)
		r.Header.Set("Content-Type", "application/octet-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := post("copy.gguf", string(data)); got != http.StatusOK {
		t.Fatalf("upload: %d", got)
	}
	if got := post("copy.gguf", string(data)); got != http.StatusConflict {
		t.Errorf("again: %d", got)
	}
	if _, ok := d.library.find("copy"); !ok {
		t.Error("not in the library")
	}
	if got := post("broken.gguf", "GGUF but not really"); got/100 == 2 {
		t.Errorf("a broken file: %d", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "models", "imported", "broken.gguf")); err == nil {
		t.Error("a broken file is kept")
	}
	ask[any](d, "DELETE", "/app/models/copy", nil)
	if _, err := os.Stat(filepath.Join(dir, "models", "imported", "copy.gguf")); err == nil {
		t.Error("deleted, and still there")
	}
}

func TestBroadcast(t *testing.T) {
	var b broadcaster
	w := b.open()
	for i := range 1000 {
		b.publish("models", "models", i)
		b.publish("chat", keyOf("chat", int64(i%3)), i)
	}
	got := w.drain()
	if len(got) != 4 || got[0].data != 999 || got[1].data != 999 {
		t.Errorf("%d events: %v", len(got), got)
	}
	if rest := w.drain(); len(rest) != 0 {
		t.Errorf("taken twice: %v", rest)
	}
	now := 1
	b.publish("models", "models", latest(func() any { return now }))
	now = 2 // changed by another window, whose event arrived first
	if got = w.drain(); len(got) != 1 || got[0].data != 2 {
		t.Errorf("of what changed meanwhile: %v", got)
	}
	b.close(w)
	b.publish("models", "models", 1)
	if rest := w.drain(); len(rest) != 0 {
		t.Errorf("after closing: %v", rest)
	}
}

func TestFenced(t *testing.T) {
	for text, want := range map[string]string{
		"a":            "```\na\n```",
		"a\n":          "```\na\n```",
		"```\nx\n```":  "````\n```\nx\n```\n````",
		"`````":        "``````\n`````\n``````",
		"":             "```\n\n```",
		"one `` two":   "```\none `` two\n```",
		fmt.Sprint(12): "```\n12\n```",
	} {
		if got := fenced(text); got != want {
			t.Errorf("fenced(%q) = %q, want %q", text, got, want)
		}
	}
}
