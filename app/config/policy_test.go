package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// locked opens a settings file with a policy file.
func locked(t *testing.T, settings, policy string) (f *File, path string) {
	t.Helper()
	f, err := Open(write(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Lock(path); err != nil {
		t.Fatal(err)
	}
	return f, path
}

// refused reports whether an error names the policy file.
func refused(err error, path string) bool {
	return errors.Is(err, ErrLocked) && strings.Contains(err.Error(), path)
}

// A locked setting has the value of the policy, and neither the environment nor Save
// nor the file changes it.
func TestPolicy(t *testing.T) {
	f, path := locked(t, "[server]\nprefix_disk = '8GiB'\nport = 80\n", "lock = ['server.port', 'sampling']\n[server]\nprefix_disk = 0\nhost = '127.0.0.1'\n")
	set, err := f.Settings(none)
	if err != nil || set.Server.PrefixDisk == nil || *set.Server.PrefixDisk != 0 || set.Server.Port != 80 {
		t.Errorf("%+v, %v", set.Server, err)
	}
	if p := f.Overruled(); p == nil || len(p.List) != 1 || p.List[0].Line != 2 || !strings.Contains(p.Error(), "server.prefix_disk") || !strings.Contains(p.Error(), path) {
		t.Errorf("overruled: %v", p)
	}
	for name, value := range map[string]string{"GODWIT_PREFIX_DISK": "1GiB", "GODWIT_PORT": "81", "GODWIT_TOP_K": "1"} {
		_, err := f.Settings(func(n string) (string, bool) { return value, n == name })
		if !refused(err, path) || !strings.Contains(err.Error(), "$"+name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if _, err := f.Settings(func(n string) (string, bool) { return "0B", n == "GODWIT_PREFIX_DISK" }); err != nil {
		t.Errorf("a variable with the locked value: %v", err)
	}
	before := read(t, f.Path())
	for name, value := range map[string]any{"server.prefix_disk": "1GiB", "server.port": nil, "sampling.top_k": 1, "server.host": "0.0.0.0"} {
		if err := f.Save(map[string]any{name: value, "app.theme": "dark"}); !refused(err, path) {
			t.Errorf("saving %s = %v: %v", name, value, err)
		}
	}
	if after := read(t, f.Path()); after != before {
		t.Errorf("the file has changed to %s", after)
	}
	if err := f.Save(map[string]any{"app.theme": "dark", "server.port": 80}); err != nil {
		t.Errorf("saving other settings: %v", err)
	}
	l, err := NewLive(f, none, set)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Origin{"server.prefix_disk": FromPolicy, "server.port": FromPolicy, "sampling.top_k": FromPolicy, "app.theme": FromFile, "engine.threads": FromDefault} {
		if got := l.Origin(name); got != want || (got == FromPolicy) != (l.Policy(name) == path) {
			t.Errorf("%s comes from %s, %q", name, got, l.Policy(name))
		}
	}
}

// Every setting can be locked, to its default and to another value, by value and by
// name. A value of its own type, which a flag has, is compared as well.
func TestPolicyOfEverySetting(t *testing.T) {
	other := map[string]string{"bool": "true", "int": "3", "float": "0.5", "text": "'x'", "list": "['x.org']", "size": "'128MiB'", "time": "'7m'", "innerq": "'8,0.5'"}
	for _, field := range Fields() {
		value := other[field.Kind]
		switch {
		case len(field.Choices) > 0:
			value = "'" + field.Choices[len(field.Choices)-1] + "'"
		case field.form == "url":
			value = "'https://x.org'"
		case field.form == "origin":
			value = "['https://x.org']"
		case field.form == "object":
			value = `'{"a":1}'`
		case field.Default == "true":
			value = "false"
		case field.Kind == "float" && field.Min != nil && *field.Min > 0.5:
			value = "2.5"
		}
		if field.From == "kv" {
			value = "'q8_0'"
		}
		section, key, _ := strings.Cut(field.Name, ".")
		f, path := locked(t, "", "["+section+"]\n"+key+" = "+value+"\n")
		set, err := f.Settings(none)
		if err != nil {
			t.Errorf("%s = %s: %v", field.Name, value, err)
			continue
		}
		base := Default()
		if Equal(field.Value(&set), field.Value(&base)) {
			t.Errorf("%s = %s is the default", field.Name, value)
		}
		own := reflect.ValueOf(&set).Elem().FieldByIndex(field.index).Interface()
		if err := f.Locked(field.Name, own); err != nil {
			t.Errorf("the locked value: %v", err)
		}
		if err := f.Locked(field.Name, reflect.ValueOf(&base).Elem().FieldByIndex(field.index).Interface()); !refused(err, path) {
			t.Errorf("the default of %s: %v", field.Name, err)
		}
		f, path = locked(t, "", "lock = ['"+field.Name+"']\n")
		if err := f.Locked(field.Name, own); !refused(err, path) {
			t.Errorf("another value than the default of %s: %v", field.Name, err)
		}
		if field.Flag != "" && !refused(f.Locked(field.Flag, own), path) {
			t.Errorf("--%s is not locked", field.Flag)
		}
		if err := f.Refused(field.Name); !refused(err, path) {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
}

// A policy file with any problem is refused as a whole, and a second one cannot change
// what the first has locked.
func TestPolicyRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[server]\nprefix_dsk = 0":            "did you mean server.prefix_disk?",
		"[servr]\nport = 1":                   "unknown section",
		"[server]\nport = 'x'":                "server.port",
		"lock = 'server.port'":                "lock: ",
		"lock = ['server.prt']":               "server.prt",
		"lock = ['port']":                     "port",
		"lock = [1]":                          "1",
		"[server":                             "",
		"lock = ['server']\n[engine]\nx = 1":  "engine.x",
		"lock = ['server']\nlok = ['engine']": "lok",
	} {
		f, err := Open(filepath.Join(t.TempDir(), "config.toml"))
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, text)
		if err := f.Lock(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
		if f.Refused("server.port") != nil {
			t.Errorf("%q locks something", text)
		}
	}
	f, first := locked(t, "", "[server]\nport = 1\n")
	if err := f.Lock(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("a missing policy file is ignored")
	}
	if err := f.Lock(write(t, "[server]\nport = 2\nhost = '::1'\n")); !refused(err, first) || f.Refused("server.host") != nil {
		t.Errorf("a second policy: %v", err)
	}
	if err := f.Lock(write(t, "[server]\nport = 1\nhost = '::1'\n")); err != nil || f.Refused("server.host") == nil {
		t.Errorf("a policy that agrees: %v", err)
	}
}
