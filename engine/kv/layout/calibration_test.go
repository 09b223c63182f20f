package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"godwit/engine/kv"
)

// calibrated returns a random calibration for layers.
func calibrated(layers []LayerInfo, seed uint64) *Calibration {
	r := rand.New(rand.NewPCG(seed, 0))
	c := &Calibration{Model: "abcd", Tokens: 99, Layers: make([]LayerCalibration, len(layers))}
	for i := range layers {
		in := &layers[i]
		if !in.owns() || in.MLA {
			continue
		}
		for range in.KVHeads {
			s := NewChannelStats(in.HeadDimK, Rotary{})
			mean := gauss(r, in.HeadDimK, 3)
			for range 64 {
				k := gauss(r, in.HeadDimK, 1)
				for j := range k {
					k[j] += mean[j]
				}
				s.AddKey(0, k)
				s.AddQuery(0, gauss(r, in.HeadDimK, 2))
			}
			c.Layers[i].Keys = append(c.Layers[i].Keys, s.Moments())
		}
		c.Layers[i].SenseK, c.Layers[i].SenseV = r.Float64(), r.Float64()/8
	}
	return c
}

func TestCalibrationFile(t *testing.T) {
	layers := model(3, 8, 2, 64)
	c := calibrated(layers, 1)
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCalibration(bytes.NewReader(b.Bytes()))
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Fatalf("read back %v, %v", got, err)
	}
	if err := got.Check("abcd", layers); err != nil || !got.Sensed() {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another model": got.Check("abce", layers),
		"layers":        got.Check("abcd", model(4, 8, 2, 64)),
		"KV heads":      got.Check("abcd", model(3, 8, 4, 64)),
		"channels":      got.Check("abcd", model(3, 8, 2, 128)),
	} {
		if !errors.Is(err, ErrCalibration) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range b.Len() {
		bad := bytes.Clone(b.Bytes())
		bad[i] ^= 0x10
		if _, err := ReadCalibration(bytes.NewReader(bad)); !errors.Is(err, ErrCalibration) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := ReadCalibration(bytes.NewReader(bad[:i])); !errors.Is(err, ErrCalibration) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

// headed returns a calibration file with the given header and arrays, and the right
// checksum.
func headed(head string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(calibrationMagic), calibrationVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = append(append(out, head...), data...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// layersOf returns a header with n layers of the given heads.
func layersOf(n, heads, dim int) string {
	layer := fmt.Sprintf(`{"kv_heads":%d,"head_dim":%d}`, heads, dim)
	return `{"layers":[` + strings.Repeat(layer+",", n-1) + layer + `]}`
}

// A header cannot request more memory than its file justifies. Reading allocates
// less than 64 times the file's bytes plus a megabyte, which includes JSON, growing
// slices and the race detector's overhead.
func TestCalibrationHostile(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		why  string
	}{
		{"heads of nothing", headed(layersOf(150, maxKVHeads, 0), nil), "layer 0: 4096 heads of 0 values"},
		{"no arrays", headed(layersOf(1, maxKVHeads, 1<<11), nil), "ends early"},
		{"many heads", headed(layersOf(65, maxKVHeads, 1), nil), "266240 heads in 5324800 bytes"},
		{"many bytes", headed(layersOf(2, maxKVHeads, 1<<11), nil), "8192 heads in 335544320 bytes"},
		{"many layers", headed(layersOf(calibrationLayers+1, 0, 0), nil), "4097 layers"},
		{"small heads", headed(layersOf(4, maxKVHeads, 1), make([]byte, 4*maxKVHeads*4*momentArrays)), ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadCalibration(bytes.NewReader(c.file))
		runtime.ReadMemStats(&after)
		if c.why == "" && err != nil || c.why != "" && (!errors.Is(err, ErrCalibration) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(64*len(c.file))+1<<20 {
			t.Errorf("%s: %d bytes were taken for a file of %d", c.name, n, len(c.file))
		}
	}
}

func FuzzCalibration(f *testing.F) {
	var b bytes.Buffer
	if err := calibrated(model(2, 4, 1, 32), 2).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(append([]byte(calibrationMagic), 1, 0, 0, 0, 2, 0, 0, 0, '{', '}'))
	f.Add(headed(layersOf(150, maxKVHeads, 0), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadCalibration(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrCalibration) {
				t.Fatal(err)
			}
			return
		}
		if _, err := c.Head(0, 0, 32); err == nil && len(c.Layers) == 0 {
			t.Fatal("a head of no layer")
		}
	})
}

// The statistics find the means, and gains with which a channel's error has the
// same weight in all channels: gain² is the ratio of the sizes of queries and keys.
func TestChannelStats(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n = 32
	s := NewChannelStats(n, Rotary{})
	k, q := make([]float32, n), make([]float32, n)
	size := func(i int) (key, query float64) { return math.Exp(float64(i%5) - 2), math.Exp(float64(i%3) - 1) }
	for range 20000 {
		for i := range n {
			key, query := size(i)
			k[i], q[i] = float32(float64(i)+key*r.NormFloat64()), float32(query*r.NormFloat64())
		}
		s.AddKey(0, k)
		s.AddQuery(0, q)
	}
	k[3], q[4] = float32(math.NaN()), float32(math.Inf(1))
	s.AddKey(0, k)
	s.AddQuery(0, q)
	m := s.Moments()
	c := m.Channels(Rotary{}, 0)
	if !c.Fits(n) {
		t.Fatal("not finite")
	}
	var logs float64
	for i := range n {
		key, query := size(i)
		if d := math.Abs(float64(c.Mean[i]) - float64(i)); d > 5*key/math.Sqrt(20000)+float64(i)/2048 {
			t.Errorf("channel %d: mean %g", i, c.Mean[i])
		}
		logs += math.Log(float64(c.Gain[i]))
		ratio := float64(c.Gain[i]) / float64(c.Gain[0])
		key0, query0 := size(0)
		if w := math.Sqrt(query / key / (query0 / key0)); math.Abs(ratio/w-1) > 0.03 {
			t.Errorf("channel %d: gain %g of the first's, want %g", i, ratio, w)
		}
	}
	if math.Abs(logs/n) > 1e-3 {
		t.Errorf("geometric mean of the gains: %g", math.Exp(logs/n))
	}
	none := NewChannelStats(4, Rotary{}).Moments()
	if empty := none.Channels(Rotary{}, 0); !empty.Fits(4) || empty.Gain[0] != 1 {
		t.Errorf("nothing counted: %v", empty)
	}
}

// A layout contains the channels for types that need them and for no others. If
// there is no calibration and none will follow, their keys become q8_0.
func TestResolveCalibration(t *testing.T) {
	layers := model(2, 8, 2, 64)
	c := calibrated(layers, 4)
	for _, typ := range kv.Types() {
		l := resolve(t, Want{typ, typ}, layers, Settings{Cells: 64, Calibration: c, AutoAsymmetric: Off})
		if has := l.Layers[1].K.Channels != nil; has != l.Layers[1].K.Active.Normalised || l.Layers[1].V.Channels != nil {
			t.Errorf("%s: channels %v", typ.Name, has)
		}
		l = resolve(t, Want{typ, typ}, layers, Settings{Cells: 64, Uncalibrated: true, AutoAsymmetric: Off})
		if k := &l.Layers[0].K; typ.Cut != nil && (k.Active != kv.Q8_0 || k.Reason == "") {
			t.Errorf("%s without calibration: K is %s (%s)", typ.Name, k.Active.Name, k.Reason)
		}
	}
	other := calibrated(model(2, 8, 2, 128), 5)
	if _, err := Resolve(Want{kv.GW3, kv.GW3}, layers, Settings{Cells: 64, Calibration: other}); !errors.Is(err, ErrCalibration) {
		t.Error(err)
	}
}

// Bits are allocated one by one to where they gain most. Their average is the
// requested one, minus at most one step.
func TestAuto(t *testing.T) {
	layers := append(model(6, 8, 2, 64), model(2, 8, 8, 128)...)
	for i := range layers {
		layers[i].Layer = i
	}
	c := calibrated(layers, 6)
	for _, bits := range []float64{2, 2.5, 3, 3.3, 4} {
		l := resolve(t, Want{}, layers, Settings{Cells: 64, Calibration: c, AutoBits: bits})
		var sum, values, largest float64
		for i := range l.Layers {
			for _, s := range []kv.Side{kv.K, kv.V} {
				y := l.Layers[i].Side(s)
				n := float64(y.HeadDim * l.Layers[i].KVHeads)
				sum += n * float64(y.Active.Codes.Bits)
				values += n
				largest = max(largest, n)
				if y.Reason == "" {
					t.Errorf("layer %d %v: no reason", i, s)
				}
			}
		}
		if avg := sum / values; avg > bits+1e-9 || avg < bits-largest/values-1e-9 {
			t.Errorf("%g bits: %g on average", bits, avg)
		}
		for _, a := range autoShares(c, layers, bits) {
			for _, b := range autoShares(c, layers, bits) {
				if a.step > b.step+1 && 4*a.gain() < b.gain() {
					t.Errorf("%g bits: layer %d %v has %d steps, layer %d %v %d", bits, a.layer, a.side, a.step, b.layer, b.side, b.step)
				}
			}
		}
	}
	l := resolve(t, Want{}, layers, Settings{Cells: 64, AutoBits: 3})
	if l.Layers[0].K.Wanted != kv.GW3 || len(l.Events) == 0 {
		t.Errorf("not measured: %s, events %v", l.Layers[0].K.Wanted.Name, l.Events)
	}
	for _, bits := range []float64{1, 4.5, -1, math.NaN()} {
		if _, err := Resolve(Want{}, layers, Settings{Cells: 64, Calibration: c, AutoBits: bits}); err == nil {
			t.Errorf("%g bits: no error", bits)
		}
	}
}

// TestKeepSense checks that only the sensitivities are copied.
func TestKeepSense(t *testing.T) {
	old := &Calibration{Layers: make([]LayerCalibration, 2)}
	old.Layers[0].SenseK, old.Layers[1].SenseV = 0.5, 0.25
	c := &Calibration{Layers: make([]LayerCalibration, 2)}
	if c.Sensed() {
		t.Fatal("sensed before anything was measured")
	}
	c.KeepSense(old)
	if c.Layers[0].SenseK != 0.5 || c.Layers[0].SenseV != 0 || c.Layers[1].SenseV != 0.25 {
		t.Errorf("kept %+v", c.Layers)
	}
}

func gauss(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}
