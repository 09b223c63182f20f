package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func text(value any) string { return fmt.Sprint(value) }

func none(string) (string, bool) { return "", false }

// write writes a settings file into a new folder.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOpen(t *testing.T) {
	f, err := Open(filepath.Join(t.TempDir(), "none", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.Settings(none); err != nil || !reflect.DeepEqual(s, Default()) {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	f, err = Open(write(t, "\xef\xbb\xbf[engine]\nctx_size = 4096 # note\nsparse_v = 0\n\n[server]\nkeep_alive = 60\nstate_budget = 1024\napi_key = ['k']\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Settings(none)
	if err != nil || s.Engine.CtxSize != 4096 || s.Engine.SparseV != 0 || s.Server.KeepAlive.String() != "1m" ||
		s.Server.StateBudget != 1024 || len(s.Server.APIKey) != 1 || s.Engine.UBatch != 512 {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestProblems checks that every problem is reported with its line and that the
// other settings are used.
func TestProblems(t *testing.T) {
	path := write(t, `threads = 4
[engine]
ctx_sise = 4096
ctx_size = "many"
ubatch_size = 0
parallel = 2

[server]
port = 1.5
api_key = [1, "sk-secret"]
[engin]
x = 1
[engine.cache]
k = 2
`)
	f, err := Open(path)
	var problems *Problems
	if !errors.As(err, &problems) || errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v", err)
	}
	want := []string{
		":1: threads: unknown section",
		":3: engine.ctx_sise: unknown setting, did you mean engine.ctx_size?",
		`:4: engine.ctx_size: bad value: "many" is not a whole number`,
		":5: engine.ubatch_size: bad value: 0; want 1 to 65536",
		":9: server.port: bad value: 1.5 is not a whole number",
		":10: server.api_key: bad value: not a list of texts",
		":11: engin: unknown section, did you mean engine?",
		":13: engine.cache: unknown setting",
	}
	for i, line := range strings.Split(err.Error(), "\n") {
		if i >= len(want) || line != path+want[i] {
			t.Errorf("line %d is %q", i, line)
		}
	}
	if s, err := f.Settings(none); err != nil || s.Engine.Parallel != 2 || s.Engine.CtxSize != 0 {
		t.Errorf("the rest: %+v, %v", s.Engine, err)
	}
}

func TestDamaged(t *testing.T) {
	const content = "[engine]\nctx_size = 4096\nthreads = = 2\n"
	path := write(t, content)
	f, err := Open(path)
	if !errors.Is(err, ErrDamaged) || !strings.HasPrefix(err.Error(), path+":3: ") {
		t.Errorf("open: %v", err)
	}
	if err := f.Save(map[string]any{"engine.threads": 2}); !errors.Is(err, ErrDamaged) || read(t, path) != content {
		t.Errorf("save: %v", err)
	}
	f, err = OpenOrSetAside(path)
	var problems *Problems
	if !errors.As(err, &problems) || problems.Aside == "" || read(t, problems.Aside) != content {
		t.Fatalf("set aside: %v", err)
	}
	if err := f.Save(map[string]any{"engine.threads": 2}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "[engine]\nthreads = 2\n" {
		t.Errorf("the new file is %q", got)
	}
	for _, bad := range []string{"[engine]\nthreads = 1\nthreads = 2\n", "\x00", strings.Repeat("#", maxFile+1)} {
		if _, err := Open(write(t, bad)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%.20q: %v, want ErrDamaged", bad, err)
		}
	}
}

func TestSave(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		changes             map[string]any
	}{
		{"new", "", "[engine]\nctx_size = 8192\nsparse_v = 0.5\n\n[server]\napi_key = ['a', \"b'c\"]\n", map[string]any{
			"engine.ctx_size": 8192.0, "engine.sparse_v": 0.5, "server.api_key": []any{"a", "b'c"},
		}},
		{
			"replace", "# mine\n[engine]\nctx_size   =  4096  # as it was\n\n[server]\nport = 1", "# mine\n[engine]\nctx_size   =  2048  # as it was\n\n[server]\nport = 2",
			map[string]any{"engine.ctx_size": 2048, "server.port": "2"},
		},
		{
			"add to a section", "[engine]\nctx_size = 4096 # x\n\n# the server\n[server]\nport = 1", "[engine]\nctx_size = 4096 # x\nthreads = 2\n\n# the server\n[server]\nport = 1\nhost = '::1'\n",
			map[string]any{"engine.threads": 2, "server.host": "::1"},
		},
		{"remove", "[engine]\nctx_size = 4096 # x\nthreads = 2\n", "[engine]\nthreads = 2\n", map[string]any{"engine.ctx_size": nil, "engine.kv_policy": nil}},
		{"many lines", "[server]\napi_key = [\n 'a', # one\n 'b',\n]\nport = 5\n", "[server]\napi_key = ['c']\nport = 5\n", map[string]any{"server.api_key": []any{"c"}}},
		{"dotted", "engine.threads = 2\n", "engine.threads = 3\n", map[string]any{"engine.threads": 3}},
		{"faults stay", "[engine]\nnonsense = 1\n", "[engine]\nnonsense = 1\nkv_preset = 'small'\n", map[string]any{"engine.kv_preset": "small"}},
		{"types", "", "[engine]\nswa_bypass = false\ninnerq = '9,0.5'\n\n[server]\nkeep_alive = '-1'\nstate_budget = '1GiB'\n", map[string]any{
			"engine.swa_bypass": false, "engine.innerq": "9", "server.keep_alive": "-1", "server.state_budget": 1 << 30 * 1.0,
		}},
	} {
		path := write(t, c.before)
		f, err := Open(path)
		if err != nil && c.name != "faults stay" {
			t.Fatal(c.name, err)
		}
		if err := f.Save(c.changes); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := read(t, path); got != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.after)
		}
		again, _ := Open(path)
		if !reflect.DeepEqual(again.values, f.values) {
			t.Errorf("%s: in memory %v, in the file %v", c.name, f.values, again.values)
		}
	}
}

// TestSaveRefused checks that an impossible change changes nothing.
func TestSaveRefused(t *testing.T) {
	const content = "engine = { threads = 2 }\n"
	path := write(t, content)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, changes := range []map[string]any{
		{"engine.threads": 3},
		{"server.port": 1, "server.prot": 1},
		{"server.port": 70000},
		{"server.host": 5},
		{"server": map[string]any{}},
		{"ctx-size": 1},
	} {
		if err := f.Save(changes); !errors.Is(err, ErrValue) {
			t.Errorf("%v: %v, want ErrValue", changes, err)
		}
	}
	if got := read(t, path); got != content {
		t.Errorf("the file is %q", got)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestSaveKeepsLinks checks that a settings file which is a symbolic link stays
// one.
func TestSaveKeepsLinks(t *testing.T) {
	path := write(t, "")
	link := filepath.Join(t.TempDir(), "config.toml")
	if err := os.Symlink(path, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	f, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(map[string]any{"engine.threads": 2}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "[engine]\nthreads = 2\n" {
		t.Errorf("the file behind the link is %q", got)
	}
}

func TestFolders(t *testing.T) {
	home := t.TempDir()
	got, err := UserFolders(func(name string) (string, bool) { return home, name == "GODWIT_HOME" })
	if err != nil || got.Config != home || got.Data != filepath.Join(home, "data") {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = unixFolders(func(name string) (string, bool) { return "/x/data", name == "XDG_DATA_HOME" }, "/x/conf", "/x/cache")
	if err != nil || got.Config != filepath.Join("/x/conf", "godwit") || got.Data != filepath.Join("/x/data", "godwit") {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzEdit changes a setting in any file. All other settings must keep their
// values, and the change must be in the file.
func FuzzEdit(f *testing.F) {
	for _, seed := range []string{
		"", "[engine]\nthreads = 1\n", "engine.threads = 1", "engine = {threads = 1}\n", "[a.b]\nc = [[1], {d = 2}]\n[[e]]\n[engine] # x\n\"threads\" = '''\n1'''\n",
		"[engine]\n[server]\n", "'engine'.'threads'=0x10\r\n[engine.threads2]\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var before map[string]any
		if toml.Unmarshal([]byte(content), &before) != nil {
			return
		}
		if table, ok := before["engine"].(map[string]any); before["engine"] != nil && !ok || table["threads"] != nil && reflect.TypeOf(table["threads"]).Kind() == reflect.Map {
			return
		}
		out, err := edit([]byte(content), "engine.threads", "77")
		if err != nil {
			return
		}
		var after map[string]any
		if err := toml.Unmarshal(out, &after); err != nil {
			// A key cannot be added to a section that its file writes in another
			// notation. Save parses the result before it writes, and refuses.
			return
		}
		engine, _ := after["engine"].(map[string]any)
		if engine["threads"] != int64(77) {
			t.Fatalf("%q became %q", content, out)
		}
		if was, ok := before["engine"].(map[string]any); ok && was["threads"] != nil {
			engine["threads"] = was["threads"]
		} else if delete(engine, "threads"); len(engine) == 0 && before["engine"] == nil {
			delete(after, "engine")
		}
		if text(before) != text(after) {
			t.Fatalf("%q became %q", content, out)
		}
	})
}
