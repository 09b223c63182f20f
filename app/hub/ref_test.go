package hub

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseRef(t *testing.T) {
	for in, want := range map[string]Ref{
		"o/r":            {"o", "r", ""},
		"o/r:Q4_K_M":     {"o", "r", "Q4_K_M"},
		"o/r:d/f.gguf":   {"o", "r", "d/f.gguf"},
		"hf.co/o/r:Q8_0": {"o", "r", "Q8_0"},
		"https://huggingface.co/Qwen/Qwen3-0.6B-GGUF/": {"Qwen", "Qwen3-0.6B-GGUF", ""},
		"https://huggingface.co/o/r/blob/main/f.gguf":  {"o", "r", "f.gguf"},
		"huggingface.co/o/r/resolve/main/d/f.gguf":     {"o", "r", "d/f.gguf"},
	} {
		if got, err := ParseRef(in); err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "demo2", "/", "o/", "/r", "o/r:", "o/r/x", "../r", "o/..", "o/.r", "o/r.", "o/r:../f", "o/r:/etc/passwd",
		"o/r:a//b", `o\r/x`, `o/r:a\b`, "o/r:C:x", "o/con", "o/nul.gguf", "aux/r", "o/r:lpt1.gguf", "o/r ", "o/r\x00", "o/r%2e",
		"o/r?x", "o/r#x", "-o/r", "o/r:" + strings.Repeat("a/", 9) + "f", "o/" + strings.Repeat("x", 200), "http://169.254.169.254/x/y",
	} {
		if got, err := ParseRef(in); !errors.Is(err, ErrName) {
			t.Errorf("%q is %+v, %v", in, got, err)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"o/r", "o/r:Q4_K_M", "https://hf.co/o/r:d/f.gguf", "../x", "o/r/blob/main/f.gguf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s)
		if err != nil {
			return
		}
		if again, err := ParseRef(r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, and that reads as %+v, %v", s, r, again, err)
		}
		if local, err := r.local("f.gguf"); err != nil || strings.Contains(local, "..") || strings.HasPrefix(local, "/") {
			t.Errorf("%q is stored at %q, %v", s, local, err)
		}
	})
}

func TestQuantOf(t *testing.T) {
	for name, want := range map[string]string{
		"SmolLM2-135M-Instruct.Q4_1.gguf": "Q4_1",
		"gemma-3-270m-q4_k_m.gguf":        "Q4_K_M",
		"Qwen3-30B-A3B-UD-Q4_K_XL.gguf":   "UD-Q4_K_XL",
		"model-IQ2_XXS.gguf":              "IQ2_XXS",
		"gpt-oss-20b-mxfp4.gguf":          "MXFP4",
		"m-BF16.gguf":                     "BF16",
		"m-f16.gguf":                      "F16",
		"Q8_0/m-00001-of-00002.gguf":      "Q8_0",
		"BF16/m-Q6_K-00001-of-00002.gguf": "Q6_K",
		"m-TQ1_0.gguf":                    "TQ1_0",
		"ggml-model-Q4_K-old-Q5_0.gguf":   "Q5_0",
		"llama-3.2-1b.gguf":               "",
		"Q1000.gguf":                      "",
	} {
		if got := quantOf(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	repo := func(names ...string) Repo {
		var files []RepoFile
		for _, n := range names {
			files = append(files, RepoFile{Name: n, Size: 1 << 30})
		}
		return Repo{ID: "o/r", Models: models(Ref{Owner: "o", Repo: "r"}, files)}
	}
	usual := repo("m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-imatrix.gguf", "mmproj-m-f16.gguf")
	split := repo("Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf", "Q6_K/m-Q6_K-00001-of-00002.gguf", "m-IQ1_S.gguf")
	for _, c := range []struct {
		repo Repo
		sel  string
		want string
		is   error
		says string
	}{
		{usual, "", "m-Q4_K_M.gguf", nil, ""},
		{usual, "q8_0", "m-Q8_0.gguf", nil, ""},
		{usual, "m-Q2_K.gguf", "m-Q2_K.gguf", nil, ""},
		{usual, "Q5_0", "", ErrNotFound, "it has Q2_K (1.0 GiB), Q4_K_M (1.0 GiB), Q8_0 (1.0 GiB)"},
		{split, "", "Q8_0/m-Q8_0-00001-of-00002.gguf", nil, ""},
		{split, "Q6_K", "", ErrNotFound, "has no"}, // the hub lacks a part
		{repo("only.gguf"), "", "only.gguf", nil, ""},
		{repo("a.gguf", "b.gguf"), "", "", ErrName, "choose one: a.gguf"},
		{repo("a-Q8_0.gguf", "b-Q8_0.gguf"), "Q8_0", "", ErrName, "matches several"},
		{repo("a-Q8_0.gguf", "b-Q8_0.gguf"), "b-Q8_0.gguf", "b-Q8_0.gguf", nil, ""},
		{repo("m-UD-Q2_K_XL.gguf", "m-UD-Q4_K_XL.gguf"), "q2_k_xl", "m-UD-Q2_K_XL.gguf", nil, ""},
		{repo(), "", "", ErrNotFound, "no GGUF files"},
	} {
		got, err := choose(c.repo, c.sel)
		if got.Name != c.want || !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q is %q, %v, want %q, %v", c.sel, got.Name, err, c.want, c.is)
		}
	}
}

// File names from a hub are used only if they are safe, and numbers only if they
// are plausible.
func TestHostileListing(t *testing.T) {
	var w wireRepo
	for _, f := range []struct {
		name string
		size int64
	}{
		{"ok.gguf", 1},
		{"../up.gguf", 1},
		{"/abs.gguf", 1},
		{`a\b.gguf`, 1},
		{"a/../../b.gguf", 1},
		{"con.gguf", 1},
		{".hid.gguf", 1},
		{"nul\x00.gguf", 1},
		{"neg.gguf", -5},
		{"huge.gguf", 1 << 62},
		{"s-00001-of-99999.gguf", 1},
		{"x.bin", 1},
	} {
		w.Siblings = append(w.Siblings, struct {
			Name string `json:"rfilename"`
			Size int64  `json:"size"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		}{Name: f.name, Size: f.size})
	}
	var got []string
	for _, m := range models(Ref{Owner: "o", Repo: "r"}, w.files()) {
		got = append(got, m.Name)
	}
	if !slices.Equal(got, []string{"ok.gguf"}) {
		t.Errorf("models are %v", got)
	}
	w.Tags = []string{"license:\x1b[31mred\nline" + strings.Repeat("x", 300)}
	if got := w.licence(); strings.ContainsAny(got, "\x1b\n") || len(got) > 200 {
		t.Errorf("the licence is %q", got)
	}
}
