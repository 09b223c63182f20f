package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/testmodel"
)

// start makes a pool of a library with one model, tiny-chat. change may change the
// options of its loads.
func start(t *testing.T, change func(o *engine.Options)) *Pool {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(testmodel.SmolLM2(t), filepath.Join(dir, "tiny-chat.gguf")); err != nil {
		t.Fatal(err)
	}
	files, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Context: 256, Cells: 512, Parallel: 2, UBatch: 128}
	if change != nil {
		change(&o)
	}
	p, err := New(Options{Library: files, Engine: Fixed(o), KeepAlive: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// wait polls until ok returns true. Its limit is so long that only a hang reaches it.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// An unload waits for a user who is leaving, and fails while a user stays.
func TestParting(t *testing.T) {
	p := start(t, func(o *engine.Options) {
	})
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := p.Acquire(t.Context(), m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	p.parting = time.Millisecond
	if err := p.Unload(m.Path); !errors.Is(err, ErrBusy) || p.Standing(m.Path).State != Loaded {
		t.Errorf("unloaded while in use: %v, %s", err, p.Standing(m.Path).State)
	}
	p.parting = time.Hour
	done := make(chan error)
	for range 3 {
		go func() { done <- p.Unload(m.Path) }()
	}
	time.Sleep(20 * time.Millisecond)
	lease.Release()
	for range 3 {
		if err := <-done; err != nil || p.Standing(m.Path).State != Unloaded {
			t.Errorf("unloaded while its last user left: %v, %s", err, p.Standing(m.Path).State)
		}
	}
}

// A request that waits for a load gets its model before the model can be unloaded.
// A request that was cancelled in the meantime counts as a user who left when the
// load ended.
func TestWaitForLoad(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	p := start(t, func(o *engine.Options) {
		var once sync.Once
		o.Progress = func(float64) error {
			once.Do(func() { close(reading) })
			<-goOn
			return nil
		}
	})
	p.parting = time.Hour
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := p.Acquire(ctx, m, Terms{})
		gone <- err
	}()
	<-reading
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("hung up during a load: %v", err)
	}
	// The state changes are those of the first load, however late its users arrive.
	var states []State
	p.Watch(Watcher{Changed: func() { states = append(states, p.entries[m.Path].state) }}) // p.mu is held
	const users = 5
	var clients sync.WaitGroup
	for range users {
		clients.Go(func() {
			l, err := p.Acquire(t.Context(), m, Terms{})
			if err != nil {
				t.Error(err)
				return
			}
			l.Release()
		})
	}
	waiting := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.entries[m.Path].users
	}
	wait(t, "users of the load", func() bool { return waiting() == users+1 }) // including the one that was cancelled
	close(goOn)
	wait(t, "the load", func() bool { return p.Standing(m.Path).State != Loading })
	if err := p.Unload(m.Path); err != nil {
		t.Error(err)
	}
	clients.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(states, []State{Loaded, Unloading, Unloaded}) || p.entries[m.Path].users != 0 {
		t.Errorf("the model went through %v, %d users are left", states, p.entries[m.Path].users)
	}
}

// An unload waits for a load that no request waits for, and fails if the load takes
// too long.
func TestUnloadInLoad(t *testing.T) {
	goOn := make(chan struct{})
	p := start(t, func(o *engine.Options) {
		o.Progress = func(float64) error { <-goOn; return nil }
	})
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Acquire(gone, m, Terms{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("loaded: %v", err)
	}
	p.parting = time.Millisecond
	if err := p.Unload(m.Path); !errors.Is(err, ErrBusy) {
		t.Errorf("during the load: %v", err)
	}
	p.parting = time.Hour
	done := make(chan error)
	go func() { done <- p.Unload(m.Path) }()
	time.Sleep(10 * time.Millisecond)
	close(goOn)
	if err := <-done; err != nil || p.Standing(m.Path).State != Unloaded {
		t.Errorf("unload: %v, %s", err, p.Standing(m.Path).State)
	}
}

// A request that waits for a load gets an error when the server closes.
func TestCloseInLoad(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	p := start(t, func(o *engine.Options) {
		var once sync.Once
		o.Progress = func(float64) error {
			once.Do(func() { close(reading) })
			<-goOn
			return nil
		}
	})
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	l, loaded, err := p.try(m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	<-reading
	done := make(chan error)
	go func() { done <- p.Close() }()
	wait(t, "the close", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	})
	close(goOn)
	<-loaded
	if err := <-done; err != nil || p.Standing(m.Path).State != Failed {
		t.Errorf("closed: %v, %s", err, p.Standing(m.Path).State)
	}
	if _, err := p.arrived(l); !errors.Is(err, ErrStopping) || l.Engine != nil || l.entry.users != 0 {
		t.Errorf("after the close: %v, %v, %d users", err, l.Engine, l.entry.users)
	}
}

// A stopped load ends with an error for waiting requests, and the next use starts
// another load.
func TestStopLoad(t *testing.T) {
	reading, goOn := make(chan struct{}, 100), make(chan struct{})
	p := start(t, func(o *engine.Options) {
		o.Progress = func(float64) error {
			select {
			case reading <- struct{}{}:
			default:
			}
			<-goOn
			return nil
		}
	})
	m, err := p.Find("")
	if err != nil {
		t.Fatal(err)
	}
	if p.StopLoad(m.Path) {
		t.Error("stopped a load that had not begun")
	}
	ended := make(chan error)
	go func() {
		_, err := p.Acquire(t.Context(), m, Terms{})
		ended <- err
	}()
	<-reading
	if !p.StopLoad(m.Path) {
		t.Error("the load was not stopped")
	}
	close(goOn)
	var load *LoadError
	if err := <-ended; !errors.As(err, &load) || !errors.Is(err, ErrStopped) {
		t.Errorf("the waiter got %v", err)
	}
	if st := p.Standing(m.Path); st.State != Failed || !errors.Is(st.Err, ErrStopped) {
		t.Errorf("after the stop: %s, %v", st.State, st.Err)
	}
	l, err := p.Acquire(t.Context(), m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}

// Errors about names have their own types, and a path is not a name.
func TestNames(t *testing.T) {
	p := start(t, nil)
	for _, name := range []string{"", "tiny-chat", "TINY-chat:latest"} {
		if m, err := p.Find(name); err != nil || m.Name != "tiny-chat" {
			t.Errorf("%q is %q, %v", name, m.Name, err)
		}
	}
	var missing *MissingError
	for _, name := range []string{"nope", "../tiny-chat.gguf", filepath.Join(p.Library().Dir(), "tiny-chat.gguf")} {
		if _, err := p.Find(name); !errors.As(err, &missing) || missing.Name != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := os.Symlink(testmodel.SmolLM2(t), filepath.Join(p.Library().Dir(), "other.gguf")); err != nil {
		t.Fatal(err)
	}
	var unnamed *UnnamedError
	if _, err := p.Find(""); !errors.As(err, &unnamed) || len(unnamed.Names) != 2 {
		t.Errorf("two models and no name: %v", err)
	}
}

// A context longer than the loaded one reloads the model once its users are done. A
// context that does not fit is rejected before that.
func TestGrow(t *testing.T) {
	p := start(t, nil)
	p.o.Free = func(string, *engine.Options) int64 { return 180 << 20 }
	m, err := p.Find("")
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Acquire(t.Context(), m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	var lack *engine.MemoryError
	if err := p.Fits(&m, 4096); !errors.As(err, &lack) || lack.Context != 4096 {
		t.Errorf("4,096 tokens in 180 MiB: %v", err)
	}
	longer := make(chan *Lease)
	go func() {
		l, err := p.Acquire(t.Context(), m, Terms{Context: 512})
		if err != nil {
			t.Error(err)
		}
		longer <- l
	}()
	wait(t, "the request for more", func() bool { return p.Standing(m.Path).Wanted })
	l.Release()
	if l = <-longer; l == nil || l.Engine.Context() != 512 {
		t.Fatal("the context did not grow")
	}
	l.Release()
}

// Whether a model only makes embeddings is read from its file or follows from its
// architecture, and never depends on its name.
func TestEmbeds(t *testing.T) {
	for _, c := range []struct {
		arch      string
		nonCausal bool
		want      bool
	}{
		{"llama", false, false}, {"qwen2", true, true}, {"bert", false, true}, {"llama-embed", false, true}, {"dilbert-lm", false, false},
	} {
		if got := Embeds(&hub.Model{Info: hub.Info{Arch: c.arch, NonCausal: c.nonCausal}}); got != c.want {
			t.Errorf("%s, not causal %v: %v", c.arch, c.nonCausal, got)
		}
	}
}

// A borrower is notified when the model should be unloaded.
func TestBorrow(t *testing.T) {
	p := start(t, func(o *engine.Options) {})
	p.parting = time.Hour
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	if p.Borrow(m.Path, nil) != nil {
		t.Fatal("borrowed a model that is not loaded")
	}
	user, err := p.Acquire(t.Context(), m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Borrow(m.Path, nil) != nil {
		t.Fatal("borrowed a model in use")
	}
	user.Release()
	wanted := make(chan struct{}, 10)
	lease := p.Borrow(m.Path, func() { wanted <- struct{}{} })
	if lease == nil {
		t.Fatal("did not borrow an idle model")
	}
	done := make(chan error)
	go func() { done <- p.Unload(m.Path) }()
	<-wanted
	lease.Release()
	if err := <-done; err != nil || p.Standing(m.Path).State != Unloaded {
		t.Errorf("%v, %s", err, p.Standing(m.Path).State)
	}
}
