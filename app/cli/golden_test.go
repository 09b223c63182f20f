package cli

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/engine/testmodel"
)

// godwit runs a command line in this process.
func godwit(t *testing.T, in []byte, args ...string) (out []byte, stderr string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	r := &run{ctx: t.Context(), in: bytes.NewReader(in), out: bufio.NewWriter(&o), err: &e, env: os.LookupEnv}
	code = r.main(args)
	if err := r.out.Flush(); err != nil {
		t.Fatal(err)
	}
	return o.Bytes(), e.String(), code
}

// must runs a command line that must succeed.
func must(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	out, stderr, code := godwit(t, in, args...)
	if code != 0 {
		t.Fatalf("godwit %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return out
}

// golden reads a file of the golden data.
func golden(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(testmodel.Golden(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %.200q", err, data)
	}
	return v
}

func list[T any](l []T) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(l), " ", ","), "[]")
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// own gives commands the test's own folders.
func own(t *testing.T) { t.Setenv("GODWIT_HOME", t.TempDir()) }

type kvCase struct {
	HeadDim   int    `json:"head_dim"`
	RowBytes  int    `json:"row_bytes"`
	PaddedDim int    `json:"padded_dim"`
	Input     string `json:"input"`
	Check     []string
	Packed    string
	Positions []int
	Rotated   *struct{ File string }
	Restored  *struct {
		File string
		Err  float64 `json:"max_err_rel_to_row_max"`
	}
}

// TestKVGolden packs and unpacks the golden rows of every form. kv decode returns
// heads of the form's size, so only the leading values of a padded head are compared.
func TestKVGolden(t *testing.T) {
	own(t)
	rows := 0
	for _, form := range parse[struct{ Formats []string }](t, golden(t, "kv", "index.json")).Formats {
		if strings.HasPrefix(form, "tq3_1s") || strings.HasPrefix(form, "tq4_1s") {
			continue // weight types
		}
		for _, c := range parse[struct{ Cases []kvCase }](t, golden(t, "kv", form, "manifest.json")).Cases {
			rows += c.check(t, form)
		}
	}
	if rows < 1000 {
		t.Errorf("%d rows compared", rows)
	}
}

// check returns the number of compared rows.
func (c *kvCase) check(t *testing.T, form string) int {
	t.Helper()
	args := []string{"--type", form, "--head-dim", strconv.Itoa(c.HeadDim)}
	if len(c.Positions) > 0 {
		args = append(args, "--positions", list(c.Positions), "--rope-base", "1e6")
	}
	want := golden(t, "kv", c.Packed)
	got := must(t, golden(t, "kv", c.Input), append([]string{"kv", "encode"}, args...)...)
	if len(got) != len(want) {
		t.Fatalf("%s at %d: %d bytes, want %d", form, c.HeadDim, len(got), len(want))
	}
	rows := 0
	for i, check := range c.Check {
		at, end := i*c.RowBytes, (i+1)*c.RowBytes
		if check == "exact" && form != "amx3_1" { // its polar codes may differ; see the data's README
			rows++
			if !bytes.Equal(got[at:end], want[at:end]) {
				t.Errorf("%s at %d, row %d: packed bytes differ", form, c.HeadDim, i)
			}
		}
	}
	if c.Rotated != nil {
		rotated := must(t, want, append([]string{"kv", "decode", "--rotated"}, args...)...)
		c.compare(t, form+" rotated", c.PaddedDim, floats(rotated), floats(golden(t, "kv", c.Rotated.File)), c.PaddedDim, 0)
	}
	if c.Restored != nil {
		restored := must(t, want, append([]string{"kv", "decode"}, args...)...)
		c.compare(t, form+" restored", c.HeadDim, floats(restored), floats(golden(t, "kv", c.Restored.File)), c.PaddedDim, c.Restored.Err)
	}
	return rows
}

// compare compares the exact rows of got, n values each, with those of want, which
// are stride values apart. The error is relative to a row's largest value.
func (c *kvCase) compare(t *testing.T, what string, n int, got, want []float32, stride int, share float64) {
	t.Helper()
	if len(got) != n*len(c.Check) || len(want) != stride*len(c.Check) {
		t.Fatalf("%s: %d values for %d rows of %d", what, len(got), len(c.Check), n)
	}
	for row, check := range c.Check {
		if check != "exact" {
			continue
		}
		a, b := got[row*n:][:n], want[row*stride:][:stride]
		limit := 0.0
		for _, v := range b {
			limit = max(limit, share*math.Abs(float64(v)))
		}
		for i := range a {
			if math.Abs(float64(a[i])-float64(b[i])) > limit {
				t.Fatalf("%s at %d: row %d, value %d is %g, want %g", what, c.HeadDim, row, i, a[i], b[i])
			}
		}
	}
}

// TestLogitsGolden requests logits in the ways of other programs: raw, as JSON and
// one token at a time, and the following tokens.
func TestLogitsGolden(t *testing.T) {
	own(t)
	names := []string{"llama", "gemma3", "qwen3", "qwen35", "gpt-oss"}
	for _, m := range testmodel.Archs(t) {
		i := slices.Index(names, m.Name)
		if i < 0 {
			continue
		}
		names = slices.Delete(names, i, i+1)
		t.Run(m.Name, func(t *testing.T) {
			run, path := m.Runs[0], m.Save(t)
			want := m.Rows(t)[run.Offset:][:m.Row*len(run.Positions)]
			near := func(what string, got []float32) {
				t.Helper()
				if len(got) != len(want) {
					t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
				}
				for i := range got {
					if !(math.Abs(float64(got[i]-want[i])) <= m.Tolerance) {
						t.Fatalf("%s: logit %d of row %d is %g, want %g", what, i%m.Row, i/m.Row, got[i], want[i])
					}
				}
			}
			args := []string{path, "--tokens", list(run.Tokens), "-ctk", "f32", "-ctv", "f32", "-c", strconv.Itoa(run.Context)}
			ask := slices.Concat([]string{"logits"}, args, []string{"--positions", list(run.Positions)})
			near("raw", floats(must(t, nil, ask...)))
			near("step", floats(must(t, nil, append(ask, "--step")...)))
			near("json", slices.Concat(parse[[][]float32](t, must(t, nil, append(ask, "--json")...))...))

			// The largest logit of the last row is the first generated token.
			got := parse[struct{ Tokens []int }](t, must(t, nil, slices.Concat([]string{"generate"}, args, []string{"-n", "1", "--json"})...))
			row := want[len(want)-m.Row:]
			if best := slices.Index(row, slices.Max(row)); len(got.Tokens) != 1 || got.Tokens[0] != best {
				t.Errorf("generated %v, want %d", got.Tokens, best)
			}
		})
	}
	if len(names) > 0 {
		t.Errorf("no golden data of %v", names)
	}
}

// TestTemplateGolden renders the golden templates from files.
func TestTemplateGolden(t *testing.T) {
	own(t)
	type group struct {
		Name, Template string
		BOS            string `json:"bos_token"`
		EOS            string `json:"eos_token"`
		Cases          []struct {
			Messages json.RawMessage
			Prompt   bool `json:"add_generation_prompt"`
			Rendered string
			Error    string
		}
	}
	for _, g := range parse[[]group](t, golden(t, "models", "templates", "templates.json")) {
		file := filepath.Join(t.TempDir(), "template")
		if err := os.WriteFile(file, []byte(g.Template), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, c := range g.Cases {
			in, err := json.Marshal(map[string]any{
				"messages": c.Messages, "add_generation_prompt": c.Prompt, "bos_token": g.BOS, "eos_token": g.EOS,
			})
			if err != nil {
				t.Fatal(err)
			}
			out, stderr, code := godwit(t, in, "template", "--template", file)
			switch {
			case c.Error != "" && (code != 1 || stderr == ""):
				t.Errorf("%s %d: exit code %d, %q, want error %q", g.Name, i, code, stderr, c.Error)
			case c.Error == "" && (code != 0 || string(out) != c.Rendered):
				t.Errorf("%s %d: exit code %d, %q, want %q\n%s", g.Name, i, code, out, c.Rendered, stderr)
			}
		}
	}
}

// TestTokenizeGolden encodes and decodes the cases of one vocabulary of each kind.
func TestTokenizeGolden(t *testing.T) {
	own(t)
	for _, name := range []string{"baichuan", "bert-bge", "deepseek-coder"} {
		path := testmodel.Golden(t, "vocab", "ggml-vocab-"+name+".gguf")
		cases := parse[struct {
			Cases []struct {
				Text     string `json:"text_b64"`
				Error    string
				IDs      map[string][]int
				Restored string `json:"detok_special_b64"`
			}
		}](t, golden(t, "vocab", name+".cases.json")).Cases
		for i, c := range cases {
			if i%44 != 0 || c.Error != "" {
				continue // the tokenizer's own tests cover all
			}
			text, err := base64.StdEncoding.DecodeString(c.Text)
			if err != nil {
				t.Fatal(err)
			}
			last := c.IDs["plain"]
			for _, mode := range []struct {
				key, base string
				flags     []string
			}{
				{"plain", "plain", []string{"--no-bos"}},
				{"parse", "plain", []string{"--no-bos", "--special"}},
				{"add", "plain", nil},
				{"add_parse", "add", []string{"--special"}},
			} {
				want, ok := c.IDs[mode.key]
				if !ok {
					if want, ok = c.IDs[mode.base]; !ok {
						want = c.IDs["plain"]
					}
				}
				got := must(t, text, append([]string{"tokenize", path}, mode.flags...)...)
				if strings.TrimSpace(string(got)) != "["+list(want)+"]" {
					t.Errorf("%s %d %s: %s, want %v", name, i, mode.key, got, want)
				}
				last = want
			}
			if restored, err := base64.StdEncoding.DecodeString(c.Restored); err != nil {
				t.Fatal(err)
			} else if got := must(t, nil, "detokenize", path, list(last)); !bytes.Equal(got, restored) && len(last) > 0 {
				t.Errorf("%s %d: restored %q, want %q", name, i, got, restored)
			}
		}
	}
}
