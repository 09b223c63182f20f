package engine_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/calibrate"
	"godwit/engine/internal/golden"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// calibrationInput is a text long enough for several parts.
func calibrationInput() []llm.Token {
	tokens := make([]llm.Token, 250)
	for i := range tokens {
		tokens[i] = llm.Token((i*i*7 + i*13) % 300)
	}
	return tokens
}

func calibrated(t testing.TB, path, dir string, progress func(float64) error) ([]byte, calibrate.Work, error) {
	m, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var work calibrate.Work
	c, err := m.Calibrator().Measure(t.Context(), calibrate.Options{Threads: 1, Tokens: calibrationInput(), Sense: true, Partial: dir, Progress: progress, Work: &work})
	if err != nil {
		return nil, work, err
	}
	var file strings.Builder
	if err := c.Write(&file); err != nil {
		t.Fatal(err)
	}
	return []byte(file.String()), work, nil
}

// TestKilledCalibration is the program that TestCalibrationResumes kills. It calibrates
// up to a given share, reports that, and waits.
func TestKilledCalibration(t *testing.T) {
	path, dir, stop := os.Getenv("GODWIT_KILLED_MODEL"), os.Getenv("GODWIT_KILLED_DIR"), os.Getenv("GODWIT_KILLED_AT")
	if path == "" {
		return // runs only as a child of TestCalibrationResumes
	}
	at, err := strconv.ParseFloat(stop, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = calibrated(t, path, dir, func(share float64) error {
		if share >= at {
			fmt.Println("killme")
			select {}
		}
		return nil
	})
	t.Fatal("not killed", err)
}

// A killed calibration continues where it stopped, both while measuring keys and
// while measuring caches, and gives the same bytes. Damaged progress makes it start
// again.
func TestCalibrationResumes(t *testing.T) {
	for _, name := range []string{"llama-hd64.gguf", "gemma3-hd64.gguf", "lfm2.gguf"} {
		path := golden.Path(t, "models", filepath.Join("tiny", name))
		want, all, err := calibrated(t, path, t.TempDir(), nil)
		if err != nil || all.Tokens != len(calibrationInput()) || all.Runs < 3 {
			t.Fatalf("%s: whole: %+v, %v", name, all, err)
		}
		for _, test := range []struct {
			at     float64
			tokens int // remaining tokens
			runs   int // remaining runs, including the base run; -1: at least 2, but not all
			damage int // byte to change, counted from the end of the file; 0: no damage
		}{
			{0.06, all.Tokens - 128, all.Runs, 0},
			{0.06, all.Tokens, all.Runs, 40}, // damaged in the saved cells
			{0.5, 0, -1, 0},
			{0.8, 0, -1, 0},
			{0.8, all.Tokens, all.Runs, 5},
		} {
			dir := t.TempDir()
			kill(t, path, dir, test.at)
			if test.damage > 0 {
				damage(t, dir, test.damage)
			}
			got, work, err := calibrated(t, path, dir, nil)
			if err != nil || string(got) != string(want) {
				t.Errorf("%s killed at %g: another calibration, %v", name, test.at, err)
			}
			if work.Tokens != test.tokens || test.runs >= 0 && work.Runs != test.runs || test.runs < 0 && (work.Runs >= all.Runs || work.Runs < 2) {
				t.Errorf("%s killed at %g, damage %d: %+v of %+v was computed again", name, test.at, test.damage, work, all)
			}
		}
	}
}

// kill runs a calibration in a separate process and kills it at a given share.
func kill(t *testing.T, path, dir string, at float64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledCalibration$")
	cmd.Env = append(os.Environ(), "GODWIT_KILLED_MODEL="+path, "GODWIT_KILLED_DIR="+dir, fmt.Sprintf("GODWIT_KILLED_AT=%g", at))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "killme" {
			break
		}
		if strings.Contains(lines.Text(), "not killed") {
			t.Error(lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil { // with SIGKILL, so that it cannot clean up
		t.Fatal(err)
	}
	_ = cmd.Wait() // returns an error because the process was killed
}

func damage(t *testing.T, dir string, fromEnd int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.partial"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-fromEnd] ^= 1
	if err := os.WriteFile(files[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// An engine that postpones the calibration runs without one. The form of its cache does
// not change when the calibration is finished, and it rejects cells from a conversation
// with another calibration.
func TestCalibrateLater(t *testing.T) {
	typ, dir := normalisedType(t), t.TempDir()
	path := golden.Path(t, "models", filepath.Join("tiny", "llama-hd64.gguf"))
	o := engine.Options{Threads: 1, Context: 256, Parallel: 1, Want: layout.Want{K: typ, V: typ}, Calibrations: dir, CalibrateLater: true}
	measured := 0
	o.Measuring = func(float64) error { measured++; return nil }
	first := openPath(t, path, o)
	if !first.Unmeasured() || measured > 0 || !first.KV().Layers[0].K.SelfCalibrated {
		t.Fatalf("a load that should not measure: %v, told %d times", first.Unmeasured(), measured)
	}
	tokens := calibrationInput()[:200]
	logits := func(e *engine.Engine) []float32 {
		row, err := e.Logits(t.Context(), tokens, []int{199}, false)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	before := logits(first)
	var cells [2]strings.Builder
	if _, err := first.SaveSlot(t.Context(), 0, &cells[0]); err != nil {
		t.Fatal(err)
	}
	if err := engine.CalibrateFile(t.Context(), path, o, func(float64) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for i, v := range logits(first) {
		if v != before[i] {
			t.Fatal("an answer changes when a calibration arrives")
		}
	}
	second := openPath(t, path, o)
	if second.Unmeasured() || second.KV().Layers[0].K.SelfCalibrated || second.KV().Layers[0].K.Channels == nil {
		t.Fatal("the next load does not use the calibration")
	}
	logits(second)
	if _, err := second.SaveSlot(t.Context(), 0, &cells[1]); err != nil {
		t.Fatal(err)
	}
	for i, e := range []*engine.Engine{second, first} {
		if _, err := e.RestoreSlot(t.Context(), 0, "", strings.NewReader(cells[i].String())); !errors.Is(err, engine.ErrSession) {
			t.Errorf("cells of another calibration: %v", err)
		}
	}
	// The calibration that strict types need is measured at load.
	short := 32
	o.KV, o.Calibrations = layout.Settings{Strict: true, ExactWindow: &short}, t.TempDir()
	if e := openPath(t, path, o); e.Unmeasured() || measured == 0 {
		t.Errorf("strict: left for later, told %d times", measured)
	}
}
