package prefix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Damage loses only the damaged data and never yields a wrong byte.
func TestDamage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 60 {
		dir := t.TempDir()
		s, _ := open(t, dir, 1<<30, 0)
		root := s.Root()
		for i := range 4 {
			keep(s, root, text(uint64(i), 300), 3000)
		}
		s.Close()
		list := slices.Concat(files(t, dir, chunkEnding), files(t, dir, manifestFile), files(t, dir, secretFile))
		f := list[r.IntN(len(list))]
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		switch r.IntN(4) {
		case 0:
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
		case 1:
			b = b[:r.IntN(len(b))]
		case 2:
			b = append(b, text8(r, r.IntN(5000))...)
		case 3:
			at := r.IntN(len(b))
			copy(b[at:], text8(r, r.IntN(2000)))
		}
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ = open(t, dir, 1<<30, 0)
		for range 2 {
			for i := range 4 {
				check(t, s, root, text(uint64(i), 300), 3000)
			}
		}
		root = s.Root()
		for i := range 4 {
			keep(s, root, text(uint64(i), 300), 3000)
			want(t, s, root, text(uint64(i), 300), 3000, 4, 1)
		}
		s.Close()
		s, _ = open(t, dir, 1<<30, 0)
		for i := range 4 {
			want(t, s, root, text(uint64(i), 300), 3000, 4, 1)
		}
		s.Close()
	}
}

func text8(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Exchanging the names of two files does no harm.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, 16<<20, 0) // chunks of 1 MiB
	root := s.Root()
	for i := range 4 {
		keep(s, root, text(uint64(i), 640), 40<<10)
	}
	s.Close()
	list := files(t, dir, chunkEnding)
	if len(list) < 3 {
		t.Fatal("too few files", list)
	}
	tmp := filepath.Join(dir, "tmp")
	for _, m := range [][2]string{{list[0], tmp}, {list[1], list[0]}, {tmp, list[1]}} {
		if err := os.Rename(m[0], m[1]); err != nil {
			t.Fatal(err)
		}
	}
	s, _ = open(t, dir, 16<<20, 0)
	for i := range 4 {
		want(t, s, root, text(uint64(i), 640), 40<<10, 10, 1)
	}
}

// Any bytes as a chunk and a manifest are either rejected or read back as
// written.
func FuzzFiles(f *testing.F) {
	dir := f.TempDir()
	s, _ := open(f, dir, 1<<30, 0)
	keep(s, s.Root(), text(1, 200), 300)
	s.Close()
	for _, name := range slices.Concat(files(f, dir, chunkEnding), files(f, dir, manifestFile)) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, strings.HasSuffix(name, manifestFile))
	}
	f.Fuzz(func(t *testing.T, b []byte, list bool) {
		into := t.TempDir()
		if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		name := files(t, into, chunkEnding)[0]
		if list {
			name = filepath.Join(into, manifestFile)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ := open(t, into, 1<<30, 0)
		check(t, s, s.Root(), text(1, 200), 300)
		keep(s, s.Root(), text(1, 200), 300)
		want(t, s, s.Root(), text(1, 200), 300, 3, 1)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestKilledWriter is the program that TestKilled kills. It writes texts until
// then.
func TestKilledWriter(t *testing.T) {
	dir := os.Getenv("GODWIT_KILLED_STORE")
	if dir == "" {
		return // only TestKilled runs it
	}
	s, l := open(t, dir, 40<<20, 1<<20)
	seed, err := strconv.ParseUint(os.Getenv("GODWIT_KILLED_SEED"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(0); ; i++ {
		keep(s, s.Root(), text(seed+i, 640), 60<<10)
		if i%3 == 0 {
			s.Sync()
			if l.lines() > 0 {
				fmt.Println("warned", l.String())
			}
			fmt.Println("kept", seed+i)
		}
	}
}

// A store that is killed at any moment opens again. It has everything that it
// had written when it was last idle, unless the size limit removed it, and no
// wrong byte.
func TestKilled(t *testing.T) {
	n := 10
	if os.Getenv("GODWIT_TEST") == "all" {
		n = 200
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	dir := t.TempDir()
	found := 0
	for k := range n {
		seed := uint64(1000 * (k + 1))
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "GODWIT_KILLED_STORE="+dir, fmt.Sprintf("GODWIT_KILLED_SEED=%d", seed))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(time.Duration(20+r.IntN(300))*time.Millisecond+time.Second/4, func() { _ = cmd.Process.Kill() })
		var last uint64
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if s, ok := strings.CutPrefix(lines.Text(), "kept "); ok {
				last, _ = strconv.ParseUint(s, 10, 64)
			} else if strings.HasPrefix(lines.Text(), "warned") {
				t.Error(lines.Text())
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it was killed
		stop.Stop()
		s, l := open(t, dir, 40<<20, 0)
		if !s.OnDisk() || l.lines() > 0 {
			t.Fatalf("after kill %d: %s", k, l.String())
		}
		if last > 0 {
			want(t, s, s.Root(), text(last, 640), 60<<10, 10, 1)
			found++
		}
		for i := range uint64(40) {
			check(t, s, s.Root(), text(seed+i, 640), 60<<10)
		}
		if l.lines() > 0 {
			t.Errorf("after kill %d: %s", k, l.String())
		}
		s.Close()
	}
	if found < n/2 {
		t.Errorf("only %d of %d runs wrote anything", found, n)
	}
}

// The header of a record reads back as it was written.
func TestHeader(t *testing.T) {
	h := header{key: Key{1}, parent: Key{2}, before: 3, tokens: text(1, 64), count: 64, part: 4, size: 5, made: 6}
	raw := h.record([]byte("secret"), []byte("12345"))
	if int64(len(raw)) != h.length() {
		t.Fatal(len(raw), h.length())
	}
	g, tokens, err := readHeader(bytes.NewReader(raw), 0)
	if err != nil || !bytes.Equal(tokens, tokenBytes(h.tokens)) {
		t.Fatal(err)
	}
	if got, err := h.check([]byte("secret"), raw); err != nil || string(got) != "12345" {
		t.Fatal(string(got), err)
	}
	if g.key != h.key || g.parent != h.parent || g.before != 3 || g.part != 4 || g.size != 5 || g.made != 6 {
		t.Errorf("%+v", g)
	}
	binary.LittleEndian.PutUint32(raw[16:], mostData+1)
	if _, err := h.check([]byte("secret"), raw); err == nil {
		t.Error("a changed header is accepted")
	}
}
