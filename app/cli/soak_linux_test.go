package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"godwit/engine/testmodel"
)

// TestSoak runs clients with four keys and four models on a budget that holds two
// models. No request fails except with 503 and a retry time, no answer contains a
// word from another conversation, and the process never uses more memory than the
// budget plus 64 MiB, without mapped files. GODWIT_SOAK, a duration, runs 16 clients for
// that long.
func TestSoak(t *testing.T) {
	const budget = 640 << 20
	span, clients := 25*time.Second, 6
	if long := os.Getenv("GODWIT_SOAK"); long != "" {
		var err error
		if span, err = time.ParseDuration(long); err != nil {
			t.Fatal(err)
		}
		clients = 16
	}
	url, pid := soakServer(t, budget)
	var peak atomic.Int64
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				peak.Store(max(peak.Load(), residentOf(t, pid)))
			}
		}
	})
	s := &soak{t: t, url: url, end: time.Now().Add(span)}
	for i := range 32 {
		s.words = append(s.words, fmt.Sprintf("ZQ%dX%dV", 1000+37*i, 7000+91*i))
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { s.client(i) })
	}
	all.Wait()
	close(stop)
	watching.Wait()
	t.Logf("%d answers, %d refused for now, at most %d MiB of %d", s.answers.Load(), s.refused.Load(), peak.Load()>>20, budget>>20)
	if peak.Load() > budget+64<<20 {
		t.Errorf("the process had %d MiB, with a budget of %d", peak.Load()>>20, budget>>20)
	}
	if s.answers.Load() < 4 {
		t.Errorf("%d answers in %v", s.answers.Load(), span)
	}
}

// soakModels are the names of the models. Each two of them share a file.
var soakModels = []string{"one", "two", "three", "four"}

// soakServer starts the program and returns its address and process.
func soakServer(t *testing.T, budget int64) (url string, pid int) {
	t.Helper()
	home := t.TempDir()
	files := []string{testmodel.SmolLM2(t), testmodel.Gemma3(t)}
	for i, name := range soakModels {
		if err := os.Symlink(files[i%2], filepath.Join(home, name+".gguf")); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("godwit", "serve", "--port", "0", "--memory", fmt.Sprint(budget), "-c", "1024", "-np", "4",
		"-ctk", "q8_0", "-ctv", "turbo3", "--backend", "cpu", "--models-folder", home,
		"--api-key", "key0", "--api-key", "key1", "--api-key", "key2", "--api-key", "key3")
	cmd.Env = append(os.Environ(), "GODWIT_HOME="+filepath.Join(home, "data"), "GOMEMLIMIT=")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
			return strings.TrimSpace(at), cmd.Process.Pid
		}
	}
	t.Fatal("the server does not say where it listens")
	return "", 0
}

// residentOf returns the memory of a process without mapped files.
func residentOf(t *testing.T, pid int) (n int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			n += kib << 10
		}
	}
	return n
}

// soak is the state that its clients share.
type soak struct {
	t                *testing.T
	url              string
	end              time.Time
	words            []string // code words, one per conversation
	answers, refused atomic.Int64
}

// client holds conversations with one model and one key.
func (s *soak) client(i int) {
	r := rand.New(rand.NewPCG(24, uint64(i)))
	for time.Now().Before(s.end) {
		k := r.IntN(len(s.words))
		turns := strings.Repeat("We walk along the sea and count the ships. ", 1+r.IntN(12))
		body, err := json.Marshal(map[string]any{
			"model": soakModels[k/4%4], "max_tokens": 1 + r.IntN(24), "temperature": 0,
			"messages": []map[string]string{
				{"role": "user", "content": "The code word is " + s.words[k] + ". " + turns},
				{"role": "assistant", "content": "I will remember it."},
				{"role": "user", "content": "What is the code word?"},
			},
		})
		if err != nil {
			s.t.Error(err)
			return
		}
		s.ask(k, body)
	}
}

// ask sends a request in conversation k and checks its answer.
func (s *soak) ask(k int, body []byte) {
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer key"+strconv.Itoa(k%4))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		s.t.Error(err)
	}
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		s.refused.Add(1)
		time.Sleep(100 * time.Millisecond)
	case resp.StatusCode != http.StatusOK:
		s.t.Errorf("%s: %s", resp.Status, text.Bytes())
	default:
		s.answers.Add(1)
	}
	for i, word := range s.words {
		if i != k && bytes.Contains(text.Bytes(), []byte(word)) {
			s.t.Errorf("conversation %d has the word of %d: %s", k, i, text.Bytes())
		}
	}
}
