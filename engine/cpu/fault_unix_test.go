//go:build unix

package cpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
)

// If a mapped file is cut short, the run ends with an error, whether Go or assembly reads the file,
// on the caller's thread or on a worker's. The next run works. (qemu's user mode gives no address
// with the signal, so this test cannot pass there.)
func TestFault(t *testing.T) {
	const size = 1 << 20
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(data) //nolint:errcheck // the process ends soon
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	p := newPool(2)
	defer p.close()
	var sum byte
	packed := make([]byte, size)
	rows, cols := 16, 256
	n, _ := kernel.PackedSize(dtype.Q8_0, rows, cols)
	x := kernel.NewActs(1, cols)
	out := make([]float32, rows)
	for name, read := range map[string]func(){
		"Go":      func() { sum += data[size/2] },
		"packing": func() { kernel.Pack(packed, dtype.Q8_0, rows, cols, data[size/2:], 0, 1) },
		"a product": func() {
			w := kernel.Packed{Type: dtype.Q8_0, Rows: rows, Cols: cols, Data: data[size/2 : size/2+n]}
			kernel.MatVec(out, &w, x, 0, 0, 1)
		},
	} {
		for task := range 2 {
			broken := p.ready([]stage{newStage(func() int { return 2 }, func(_, i int) {
				if i == task {
					read()
				}
			})})
			if err := p.run(context.Background(), &broken, false); err == nil || !strings.Contains(err.Error(), "cut short") {
				t.Errorf("%s, task %d: %v", name, task, err)
			}
		}
		sound := p.ready([]stage{newStage(func() int { return 2 }, func(int, int) {})})
		if err := p.run(context.Background(), &sound, false); err != nil {
			t.Errorf("%s, the run after it: %v", name, err)
		}
	}
}
