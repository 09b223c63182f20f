//go:build linux || darwin

package emu

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// subject is a kernel with a case that tests it.
type subject struct {
	name  string
	judge func(t *testing.T, edit func(string) string) error
}

var subjects = []subject{
	{"norm", judgeNorm},
	{"matmul", judgeMatmul(0)},
	{"matmul", judgeMatmul(1)},
	{"matmul", judgeMatmul(2)},
	{"route", judgeRoute},
	{"top", judgeTop},
	{"kv_query", judgeQuery},
	{"kv_encode", judgeEncode},
	{"kv_trellis", judgeTrellis},
	{"kv_repack", judgeRepack(false)},
	{"kv_repack", judgeRepack(true)},
	{"attend", judgeAttend},
	{"attend_combine", judgeAttend},
}

func judgeNorm(_ *testing.T, edit func(string) string) error {
	const rows, width = 3, 300
	x := normal(1, rows*width)
	out, err := once{
		kernel: "norm", grid: [3]uint32{rows, 1, 1}, edit: edit, args: map[string][]byte{"x": raw(x), "y": nans(rows * width)},
		params: shaders.Bytes(&shaders.NormParams{Width: width, Group: width, Kind: 1, Eps: 1e-5}),
	}.try()
	if err != nil {
		return err
	}
	var want []float64
	for r := range rows {
		var mean, variance float64
		for _, v := range x[r*width:][:width] {
			mean += float64(v) / width
		}
		for _, v := range x[r*width:][:width] {
			variance += (float64(v) - mean) * (float64(v) - mean) / width
		}
		for _, v := range x[r*width:][:width] {
			want = append(want, (float64(v)-mean)/math.Sqrt(variance+1e-5))
		}
	}
	return differ(as[float32](out["y"]), want, ulps(want, 8, 1))
}

func judgeMatmul(mma int) func(*testing.T, func(string) string) error {
	return func(t *testing.T, edit func(string) string) error {
		const cols, rows, batch = 96, 70, 35
		data, w := matrix(t, dtype.Q8_0, cols, rows)
		x := normal(9, batch*cols)
		out, err := once{
			kernel: "matmul", constants: shaders.Constants{"WEIGHT": int(dtype.Q8_0), "MMA": mma}, grid: [3]uint32{2, 2, 1}, edit: edit,
			args:   map[string][]byte{"w": data, "x": raw(x), "y": nans(batch * rows)},
			params: shaders.Bytes(&shaders.MatmulParams{Cols: cols, Rows: rows, RowBytes: uint32(dtype.Q8_0.RowBytes(cols)), Batch: batch}),
		}.try()
		if err != nil {
			return err
		}
		want, size := product(w, x, nil, cols)
		return differ(as[float32](out["y"]), want, sumBound(size, cols+8))
	}
}

// judgeRoute has more experts than lanes. Some groups of experts are left out,
// including the group with the best single expert.
func judgeRoute(_ *testing.T, edit func(string) string) error {
	const rows, experts, used, groups, stay = 3, 64, 6, 8, 3
	x := normal(11, rows*experts)
	for r := range rows {
		for i := range experts / groups {
			x[r*experts+40+i] = -9
		}
		x[r*experts+43] = 9
	}
	out, err := once{
		kernel: "route", constants: shaders.Constants{"EXPERTS": 64}, grid: [3]uint32{rows, 1, 1}, edit: edit,
		args:   map[string][]byte{"logits": raw(x), "y": nans(2 * rows * used)},
		params: shaders.Bytes(&shaders.RouteParams{Experts: experts, Used: used, Gating: 1, Scale: 1, Groups: groups, UsedGroups: stay}),
	}.try()
	if err != nil {
		return err
	}
	var want []float64
	for r := range rows {
		row, size := x[r*experts:][:experts], experts/groups
		sigmoid := func(v float32) float64 { return 1 / (1 + math.Exp(-float64(v))) }
		best := func(g int) float64 { // sum of the group's two best scores
			s := slices.Sorted(slices.Values(row[g*size:][:size]))
			return sigmoid(s[size-1]) + sigmoid(s[size-2])
		}
		var order, chosen []int
		for g := range groups {
			order = append(order, g)
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(best(b), best(a)) })
		for i := range experts {
			if slices.Contains(order[:stay], i/size) {
				chosen = append(chosen, i)
			}
		}
		slices.SortFunc(chosen, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
		chosen = chosen[:used]
		for _, i := range chosen {
			want = append(want, float64(i))
		}
		for _, i := range chosen {
			want = append(want, sigmoid(row[i]))
		}
	}
	return differ(as[float32](out["y"]), want, ulps(want, 8, 1))
}

func judgeQuery(t *testing.T, edit func(string) string) error {
	for name, dim := range map[string]int{"tbqp3_0": 256, "tbq3_3": 64, "tbqp4_4": 576} {
		form := typed(t, name, dim)
		c, err := shaders.NewCache(form, dim, 0)
		if err != nil {
			return err
		}
		x := normal(3, dim)
		out := map[string][]byte{"y": nans(c.Lanes), "res": nans(c.Lanes)}
		for _, l := range c.Query(1) {
			out, err = once{
				kernel: l.Kernel.Name, constants: l.Constants, params: l.Params, grid: [3]uint32{l.X, 1, 1}, edit: edit,
				args: map[string][]byte{"x": raw(x), "form": raw(l.Table), "y": out["y"], "res": out["res"]},
			}.try()
			if err != nil {
				return err
			}
		}
		q, res := make([]float32, c.Lanes), make([]float32, c.Lanes)
		form.RotateQuery(q, res, x)
		for i := range q {
			if got := as[float32](out["y"])[i]; got != q[i] {
				return fmt.Errorf("value %d is %g, want %g", i, got, q[i])
			}
			if got := as[float32](out["res"])[i]; c.HasResidual() && i < 512 && got != res[i] {
				return fmt.Errorf("value %d of the residual's vector is %g, want %g", i, got, res[i])
			}
		}
	}
	return nil
}

func judgeEncode(t *testing.T, edit func(string) string) error {
	for name, dim := range map[string]int{
		"turbo3": 128, "tbqp4_0": 256, "tbqp4_3": 64, "q5_1": 128, "q8_0-rot": 256, "iq4_nl": 128, "oa-turbo3": 128, "tq3_0": 128, "amx3_1": 128, "tbq4_0": 512,
	} {
		form := typed(t, name, dim)
		c, err := shaders.NewCache(form, dim, 0)
		if err != nil {
			return err
		}
		x, want := normal(5, dim), make([]byte, form.RowBytes(dim))
		form.Encode(want, x, kv.At{Pos: 3})
		l := c.Encode(1, shaders.Target{})[0]
		out, err := once{
			kernel: l.Kernel.Name, constants: l.Constants, params: l.Params, grid: [3]uint32{l.X, 1, 1}, edit: edit,
			args: map[string][]byte{
				"x": raw(x), "rows": raw([]int32{3, 4, 0, 0}), "tables": raw([]int32{0}), "form": raw(l.Table), "cache": make([]byte, 64*c.HeadBytes),
			},
		}.try()
		if err != nil {
			return err
		}
		if got := out["cache"][3*c.HeadBytes:][:c.HeadBytes]; string(got) != string(want) {
			return fmt.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	return nil
}

func judgeTrellis(t *testing.T, edit func(string) string) error {
	for name, dim := range map[string]int{"gw2": 80, "gw3": 64, "gw4": 128} {
		form := typed(t, name, dim)
		c, err := shaders.NewCache(form, dim, 0)
		if err != nil {
			return err
		}
		x, want := normal(5, dim), make([]byte, form.RowBytes(dim))
		form.Encode(want, x, kv.At{})
		cache := make([]byte, 64*c.HeadBytes)
		for _, l := range c.Encode(1, shaders.Target{}) {
			out, err := once{
				kernel: l.Kernel.Name, constants: l.Constants, params: l.Params, grid: [3]uint32{l.X, 1, 1}, edit: edit,
				args: map[string][]byte{"x": raw(x), "rows": raw([]int32{3, 4, 0, 0}), "tables": raw([]int32{0}), "form": raw(l.Table), "cache": cache},
			}.try()
			if err != nil {
				return err
			}
			cache = out["cache"]
		}
		if got := cache[3*c.HeadBytes:][:c.HeadBytes]; string(got) != string(want) {
			return fmt.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	return nil
}

// judgeRepack packs two pages from their exact rows, of which one is a passing
// page, and compares the codes with engine/kv. If levelled is set, the sequences of
// the pages normalise their channels.
func judgeRepack(normalised bool) func(*testing.T, func(string) string) error {
	return func(t *testing.T, edit func(string) string) error { return repack(t, normalised, edit) }
}

func repack(t *testing.T, normalised bool, edit func(string) string) error {
	const dim, heads, own = 96, 2, 3
	zero, newest := 0, 64
	l, err := layout.Resolve(layout.Want{K: kv.GW3, V: kv.F16}, []layout.LayerInfo{{
		Cached: true, Heads: heads, KVHeads: heads, HeadDimK: dim, HeadDimV: dim, Share: -1,
	}}, layout.Settings{Cells: 512, Policy: &zero, ExactWindow: &newest, Uncalibrated: true, SelfCalibrate: true})
	if err != nil {
		return err
	}
	form, beside := l.Layers[0].K.Active, l.Layers[0].K.Exact
	c, err := shaders.NewCache(form, dim, 0)
	if err == nil {
		err = c.Beside(beside, nil)
	}
	if err != nil {
		return err
	}
	c.SelfCalibrated = normalised
	size := beside.RowBytes(dim)
	exact, cache := make([]byte, 5*64*heads*size), make([]byte, 4*64*heads*c.HeadBytes)
	x := normal(6, len(exact)/size*dim)
	for i := range len(exact) / size {
		beside.Encode(exact[i*size:][:size], x[i*dim:][:dim], kv.At{})
	}
	pages := []int32{2, 1, 1, 0, own + 1, 0} // packed, exact, sequence
	mean, gain := normal(7, 2*heads*dim), normal(8, 2*heads*dim)
	for i, v := range gain {
		gain[i] = float32(math.Exp(float64(v)))
	}
	for _, l := range c.Repack(heads, shaders.Target{Private: own, Passing: own * 64 * heads * size / 64}) {
		out, err := once{
			kernel: l.Kernel.Name, constants: l.Constants, params: l.Params, grid: [3]uint32{l.X, heads, 128}, edit: edit,
			args: map[string][]byte{
				"packs": raw(pages), "exact": exact, "form": raw(l.Table), "mean": raw(mean), "gain": raw(gain), "cache": cache,
			},
		}.try()
		if err != nil {
			return err
		}
		cache = out["cache"]
	}
	for i := range 2 * heads * 64 {
		page, in := i/(heads*64), i%(heads*64)
		got := cache[(int(pages[3*page])*heads*64+in)*c.HeadBytes:][:c.HeadBytes]
		from := exact[(int(pages[3*page+1])*heads*64+in)*size:][:size]
		channel := (int(pages[3*page+2])*heads + in/64) * dim
		want := repacked(form, beside, dim, from)
		if normalised {
			want = renormalised(form, beside, from, kv.Channels{Mean: mean[channel:][:dim], Gain: gain[channel:][:dim]})
		}
		if string(got) != string(want) {
			return fmt.Errorf("cell %d: %x, want %x", i, got, want)
		}
	}
	return nil
}

// renormalised converts an exact row to one with normalised channels.
func renormalised(form, exact *kv.Type, row []byte, c kv.Channels) []byte {
	x, out := make([]float32, len(c.Mean)), make([]byte, form.RowBytes(len(c.Mean)))
	exact.Decode(x, row, kv.At{})
	form.Encode(out, x, kv.At{Channels: &c})
	return out
}

// repacked converts an exact row to a row with trellis codes.
func repacked(form, exact *kv.Type, dim int, row []byte) []byte {
	x, out := make([]float32, dim), make([]byte, form.RowBytes(dim))
	exact.DecodeRotated(x, row)
	for _, s := range form.Segments(dim) {
		f, v, to := s.Form, x[s.Lane:][:s.Form.Elems], out[s.At:]
		z, w := make([]int16, len(v)), make([]uint8, len(v))
		energy := kv.TrellisTargets(z, v, f.Scale.Unit)
		f.Codes.Trellis.Encode(w, z)
		binary.LittleEndian.PutUint16(to[f.Scale.At:], dtype.F32ToF16(f.TrellisScale(v, w, energy)))
		for i, n := range w {
			for b := range f.Codes.Bits {
				at := i*f.Codes.Bits + b
				to[f.Codes.At+at/8] |= n >> b & 1 << (at % 8)
			}
		}
	}
	return out
}

func judgeAttend(t *testing.T, edit func(string) string) error {
	c := attendCase{
		k: typed(t, "turbo3", 128), v: typed(t, "turbo3", 128), heads: 4, kvHeads: 2, dimK: 128, dimV: 128, cells: 1100, rows: 2, tile: 2, edit: edit,
	}
	if err := c.judge(t); err != nil {
		return err
	}
	c.v, c.dimV, c.cells = typed(t, "tq3_0", 64), 64, 70
	if err := c.judge(t); err != nil {
		return err
	}
	c.dimV, c.cells, c.tile, c.rows, c.k, c.v, c.sparse, c.sharp = 128, 1100, 1, 1, kv.F32, kv.F32, 1e-3, true
	return c.judgeSparse(t)
}

// TestBarriers finds kernels with barriers that no subject tests.
func TestBarriers(t *testing.T) {
	for _, k := range shaders.Kernels {
		text, err := k.Source(anyConstants(k.Name))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(subjects, func(s subject) bool { return s.name == k.Name }) {
			continue
		}
		for _, file := range k.Files {
			if first, end, ok := section(text, file); !ok || strings.Contains(text[first:end], "barrier();") {
				t.Errorf("%s has barriers in %s and is not a subject", k.Name, file)
			}
		}
	}
}

// TestSubjects tests the unchanged kernels.
func TestSubjects(t *testing.T) {
	for _, s := range subjects {
		if err := s.judge(t, nil); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// mutant is a change of a source that a test must notice.
type mutant struct {
	file     string
	old, new string
	nth      int    // index among the matches of old in the file
	word     string // word in the report; empty for any failure
}

// edit changes the text of a kernel that includes the file.
func (m *mutant) edit(text string) string {
	first, end, ok := section(text, m.file)
	if !ok {
		return text
	}
	at := first - 1
	for range m.nth + 1 {
		i := strings.Index(text[at+1:end], m.old)
		if i < 0 {
			return text
		}
		at += 1 + i
	}
	return text[:at] + m.new + text[at+len(m.old):]
}

// section returns the position of a file in the text of a kernel.
func section(text, file string) (first, end int, ok bool) {
	mark := fmt.Sprintf("#line 1 %q\n", file)
	first = strings.Index(text, mark)
	if first < 0 {
		return 0, 0, false
	}
	first += len(mark)
	if n := strings.Index(text[first:], "#line 1 "); n >= 0 {
		return first, first + n, true
	}
	return first, len(text), true
}

// mutants are the removal of each barrier in the subjects' files, and some other
// changes.
func mutants(t *testing.T) []mutant {
	t.Helper()
	list := []mutant{
		{file: "dialect.h", old: "	v = simd_sum(v);", new: "	if (thread_index < 7) v = simd_sum(v);", word: "simd_sum, dialect.h:"},
		{file: "dialect.h", old: "	v = simd_sum(v);", new: "	if (thread_index % 32 < 16) v += simd_shuffle_xor(v, 1u);", word: "simd_shuffle_xor, dialect.h:"},
		{file: "norm.h", old: "	uint first = ", new: "	if (thread_x == 5) return;\n	uint first = ", word: "has returned"},
		{file: "norm.h", old: "	float squares = ", new: "	if (thread_x >= 64) barrier();\n	float squares = ", word: "barrier, norm.h:"},
		{file: "norm.h", old: "SHARED(float, room, THREADS / 32)", new: "SHARED(float, room, THREADS / 32 - 1)", word: "a write past the end of room, norm.h:"},
		{file: "norm.h", old: "SHARED(float, room, THREADS / 32)", new: "SHARED(float, room, 8193)", word: "bytes of shared memory"},
		{file: "norm.h", old: "y[first + i] = v;", new: "y[first + i + 1] = v;", word: "past the end of y"},
		{file: "matmul.h", old: "mma(part + 4 * j, c, b);", new: ";"},
		{file: "matmul.h", old: "mma(part + 4 * j, a, b);", new: "if (lane < 16) mma(part + 4 * j, a, b);", word: "mma, matmul.h:"},
		{file: "matmul.h", old: "matrix_multiply(sum[2 * j + i], a, b[i]);", new: "if (lane != 3) matrix_multiply(sum[2 * j + i], a, b[i]);", word: "matrix_multiply, matmul.h:"},
		{file: "attend.h", old: "w < p.sparse_v", new: "w < 100.0f * p.sparse_v", word: "counted"},
	}
	files := map[string]bool{}
	for _, s := range subjects {
		text, err := shaders.Find(s.name).Source(anyConstants(s.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append([]string{"dialect.h"}, shaders.Find(s.name).Files...) {
			first, end, ok := section(text, file)
			if !ok || files[file] {
				continue
			}
			files[file] = true
			from := strings.LastIndex(text[first:end], "#define lane ") // after the dialect's macros
			for n := range strings.Count(text[first:end], "barrier();") {
				if from < 0 || strings.Count(text[first:first+from], "barrier();") <= n {
					list = append(list, mutant{file: file, old: "barrier();", new: ";", nth: n})
				}
			}
		}
	}
	if len(list) < 30 {
		t.Errorf("%d mutants", len(list))
	}
	return list
}

// TestMutants makes one change at a time. Each mutant runs in a separate process,
// because its behaviour is unpredictable.
func TestMutants(t *testing.T) {
	list := mutants(t)
	if n := os.Getenv("GODWIT_MUTANT"); n != "" {
		i, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		mutantCache = t.TempDir()
		tryMutant(t, list[i])
		return
	}
	for i, m := range list {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestMutants$", "-test.timeout=15m")
			cmd.Env = append(os.Environ(), "GODWIT_MUTANT="+strconv.Itoa(i))
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("%s: nobody noticed that %q, number %d, became %q", m.file, m.old, m.nth, m.new)
			case !strings.Contains(string(out), m.word):
				t.Errorf("%s: %q for %q was noticed, but not by %q:\n%s", m.file, m.new, m.old, m.word, head(string(out), 20))
			}
		})
	}
}

// tryMutant fails if any kernel with the file notices the change.
func tryMutant(t *testing.T, m mutant) {
	t.Helper()
	for _, s := range subjects {
		if m.file == "dialect.h" && s.name != "norm" || m.file != "dialect.h" && !slices.Contains(shaders.Find(s.name).Files, m.file) {
			continue
		}
		if err := s.judge(t, m.edit); err != nil {
			t.Fatal(err)
		}
	}
}

// anyConstants returns a value for each constant of a kernel.
func anyConstants(kernel string) shaders.Constants {
	c := shaders.Constants{}
	for _, name := range shaders.Find(kernel).Constants {
		c[name] = 1
	}
	return c
}
