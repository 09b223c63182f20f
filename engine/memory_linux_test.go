package engine_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// envMemory is an environment variable with the path of a model. TestMemory then loads
// the model and prints the memory that the process needed.
const envMemory = "GODWIT_TEST_MEMORY"

// Apart from its cache, a process needs at most the size of the model file once plus
// 64 MiB, because repacked weights replace mapped pages piece by piece. The test uses a
// separate process, because it measures the peak memory.
func TestMemory(t *testing.T) {
	if path := os.Getenv(envMemory); path != "" {
		measureMemory(t, path)
		return
	}
	for name, path := range map[string]string{"SmolLM2": testmodel.SmolLM2(t), "Gemma": testmodel.Gemma3(t)} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
			cmd.Env = append(os.Environ(), envMemory+"="+path)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, line, _ := strings.Cut(string(out), "memory: ")
			f := strings.Fields(line)
			if len(f) < 3 {
				t.Fatalf("no figures in %q", out)
			}
			var n [3]int64
			for i := range n {
				if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			if most, limit := n[0], n[1]+n[2]+64<<20; most > limit {
				t.Errorf("%d MB in use, want at most %d: file %d, cache %d", most/1e6, limit/1e6, n[1]/1e6, n[2]/1e6)
			}
		})
	}
}

func measureMemory(t *testing.T, path string) {
	e := openPath(t, path, engine.Options{Context: 1024, Parallel: 1})
	tokens := make([]llm.Token, 600)
	for i := range tokens {
		tokens[i] = llm.Token(i%1000 + 5)
	}
	if _, _, err := e.Answer(t.Context(), engine.Request{Tokens: tokens, MaxTokens: 8}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(b), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("memory: %d %d %d", kib<<10, e.Model().File.Size(), e.KV().Bytes())
}
