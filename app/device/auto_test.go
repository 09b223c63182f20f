package device

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
)

// card is a driver with one device that must not be opened.
type card struct {
	name string
	info []backend.Info
}

func (c *card) Name() string                     { return c.name }
func (c *card) Devices() ([]backend.Info, error) { return c.info, nil }
func (c *card) Open(int, backend.Options) (backend.Backend, error) {
	return nil, errors.New("the card is out of order")
}

// TestAuto follows a card: new, known, with another driver, with another program,
// broken.
func TestAuto(t *testing.T) {
	gpu := &card{"one", []backend.Info{{Device: "Card", Detail: "driver 1"}}}
	record := Record(filepath.Join(t.TempDir(), "sub", "devices.json"))
	verdict := Verdict{Backend: "one", Device: "Card", Detail: "driver 1", Binary: binary(), When: time.Now().Add(time.Hour), Result: backendtest.Result{Cases: 3}}
	wrong := verdict
	wrong.Failures = []backendtest.Failure{{Case: "matrices/q8_0", Text: "row 1"}}
	crash := errors.New("killed")
	var result Verdict
	var failure error
	checks := 0
	keep := func(v Verdict) {
		if err := record.Keep(v); err != nil {
			t.Fatal(err)
		}
	}
	check := func(context.Context, string) (Verdict, error) {
		checks++
		return result, failure
	}
	a := &Auto{
		Record: record, Log: slog.New(slog.DiscardHandler), Check: check,
		gpus: []entry{{Driver: &card{name: "absent"}, installed: func() bool { return false }}, {Driver: gpu, installed: func() bool { return true }}},
	}
	for _, step := range []struct {
		what   string
		before func()
		want   string
		checks int
	}{
		{"no check, nothing known", func() { a.Check, a.Later = nil, false }, "cpu", 0},
		{"new and right", func() {
			a.Check, result = check, verdict
		}, "one", 1},
		{"known", func() {}, "one", 0},
		{"another driver, wrong", func() { gpu.info[0].Detail, result = "driver 2", wrong; result.Detail = "driver 2" }, "cpu", 1},
		{"known to be wrong", func() {}, "cpu", 0},
		{"another program, right", func() {
			result.Binary = "older"
			keep(result)
			result = verdict
			result.Detail = "driver 2"
		}, "one", 1},
		{"the card is gone", func() { gpu.info, failure = nil, crash }, "cpu", 1},
		{"a check that crashed is not tried again", func() {}, "cpu", 0},
		{"and long ago", func() {
			keep(Verdict{Backend: "one", Binary: binary(), Error: "killed", When: time.Now().Add(-2 * holds)})
		}, "cpu", 1},
		{"a driver without a device, not long ago", func() { keep(Verdict{Backend: "one", Binary: binary(), None: true, When: time.Now()}) }, "cpu", 0},
		{"and long ago", func() {
			keep(Verdict{Backend: "one", Binary: binary(), None: true, When: time.Now().Add(-2 * holds)})
		}, "cpu", 1},
	} {
		step.before()
		checks = 0
		if got := a.Choose(t.Context()); got != step.want || checks != step.checks {
			t.Errorf("%s: %s after %d checks, want %s after %d", step.what, got, checks, step.want, step.checks)
		}
	}
	kept, err := record.Verdicts()
	if v := kept["one"]; err != nil || v.Passed() || v.String() != "killed" {
		t.Errorf("kept: %+v, %v", v, err)
	}
}

// A cancelled check records no verdict.
func TestAutoCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	record := Record(filepath.Join(t.TempDir(), "devices.json"))
	a := &Auto{
		Record: record, Log: slog.New(slog.DiscardHandler),
		Check: func(ctx context.Context, _ string) (Verdict, error) { cancel(); return Verdict{}, ctx.Err() },
		gpus:  []entry{{Driver: &card{name: "one"}, installed: func() bool { return true }}},
	}
	if got := a.Choose(ctx); got != "cpu" {
		t.Errorf("%s is chosen", got)
	}
	if kept, err := record.Verdicts(); err != nil || len(kept) > 0 {
		t.Errorf("kept: %v, %v", kept, err)
	}
}

// A background check does not delay the choice, and runs once.
func TestAutoLater(t *testing.T) {
	asked := make(chan string, 2)
	a := &Auto{
		Record: Record(filepath.Join(t.TempDir(), "devices.json")), Later: true, Log: slog.New(slog.DiscardHandler),
		Check: func(ctx context.Context, name string) (Verdict, error) {
			asked <- name
			<-ctx.Done()
			return Verdict{}, ctx.Err()
		},
		gpus: []entry{{Driver: &card{name: "slow"}, installed: func() bool { return true }}},
	}
	for range 2 {
		if got := a.Choose(t.Context()); got != "cpu" {
			t.Errorf("%s is chosen", got)
		}
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("nothing was checked")
	}
	if len(asked) > 0 {
		t.Error("checked twice")
	}
}

// If a verdict cannot be recorded, here because the folder is a file, it applies in
// this process and is logged once. A verdict of another program does not count.
func TestAutoUnkept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	verdict := Verdict{Backend: "one", Device: "Card", Detail: "driver 1", Binary: binary(), When: time.Now(), Result: backendtest.Result{Cases: 3}}
	other := verdict
	other.Binary = "another"
	for _, test := range []struct {
		what  string
		found Verdict
		err   error
		want  string
	}{
		{"right", verdict, nil, "one"},
		{"crashed", Verdict{}, errors.New("killed"), "cpu"},
		{"another program's", other, nil, "cpu"},
	} {
		var log strings.Builder
		checks := 0
		a := &Auto{
			Record: Record(filepath.Join(file, test.what, "devices.json")), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Check: func(context.Context, string) (Verdict, error) { checks++; return test.found, test.err },
			gpus:  []entry{{Driver: &card{"one", []backend.Info{{Device: "Card", Detail: "driver 1"}}}, installed: func() bool { return true }}},
		}
		for range 2 {
			if got := a.Choose(t.Context()); got != test.want {
				t.Errorf("%s: %s is chosen, want %s", test.what, got, test.want)
			}
		}
		if kept := strings.Count(log.String(), "not saved"); checks != 1 || kept != 1 {
			t.Errorf("%s: %d checks, %d warnings\n%s", test.what, checks, kept, &log)
		}
	}
}

// A damaged record does not cause an error. The devices are checked again.
func TestRecordDamaged(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"empty": "", "text": "all is well", "null": "null", "list": `[{"cases":1}]`, "types": `{"one":{"cases":"many"}}`, "long": strings.Repeat(" ", maxRecord) + "{}",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, err := Record(path).Verdicts(); err != nil || len(kept) > 0 {
			t.Errorf("%s: %v, %v", name, kept, err)
		}
	}
	if _, err := Record(dir).Verdicts(); err != nil {
		t.Errorf("a folder: %v", err)
	}
	if err := Record(dir).Keep(Verdict{Backend: "one"}); err == nil {
		t.Error("a folder was overwritten")
	}
}

// A card that cannot be opened gives a failed check, not a crash.
func TestCheckBroken(t *testing.T) {
	v, err := check(t.Context(), &card{"one", []backend.Info{{Device: "Card"}}}, nil)
	if err != nil || v.Passed() || !strings.Contains(v.String(), "out of order") {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := check(t.Context(), &card{name: "none"}, nil); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("no device: %v", err)
	}
}
