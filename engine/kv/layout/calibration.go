package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"godwit/engine/kv"
)

// ErrCalibration is the class of errors about a calibration that cannot be used,
// because it is damaged or belongs to another model.
var ErrCalibration = errors.New("kv: calibration refused")

// Calibration is measured once per model: the statistics of its key channels, and
// the sensitivity of each cache.
type Calibration struct {
	Model  string // identity of the model file, in hexadecimal
	Tokens int    // number of tokens used for the measurement
	Layers []LayerCalibration
}

// LayerCalibration is the calibration of one layer. It is zero if the layer has
// no keys of its own or uses latent attention.
type LayerCalibration struct {
	Keys []Moments // one per KV head
	// SenseK and SenseV are the sensitivities of the two caches: the divergence
	// of the model, in nats, with two bits in that cache alone. 0 means not
	// measured.
	SenseK, SenseV float64
}

// Sensed reports whether the sensitivity of the caches was measured.
func (c *Calibration) Sensed() bool {
	for i := range c.Layers {
		if l := &c.Layers[i]; l.SenseK > 0 || l.SenseV > 0 {
			return true
		}
	}
	return false
}

// channels returns the channels of the heads of a layer.
func (l *LayerCalibration) channels(r Rotary, span int) []kv.Channels {
	out := make([]kv.Channels, len(l.Keys))
	for h := range l.Keys {
		out[h] = l.Keys[h].Channels(r, span)
	}
	return out
}

// KeepSense copies the sensitivities of another calibration of the same model.
func (c *Calibration) KeepSense(of *Calibration) {
	for i := range min(len(c.Layers), len(of.Layers)) {
		c.Layers[i].SenseK, c.Layers[i].SenseV = of.Layers[i].SenseK, of.Layers[i].SenseV
	}
}

// Check rejects a calibration that does not belong to a model with these layers.
func (c *Calibration) Check(model string, layers []LayerInfo) error {
	if c.Model != model {
		return fmt.Errorf("%w: it belongs to another model", ErrCalibration)
	}
	if len(c.Layers) != len(layers) {
		return fmt.Errorf("%w: it has %d layers, but the model has %d", ErrCalibration, len(c.Layers), len(layers))
	}
	for i := range layers {
		in, l := &layers[i], &c.Layers[i]
		if !in.owns() || in.MLA {
			continue
		}
		if len(l.Keys) != in.KVHeads {
			return fmt.Errorf("%w: layer %d has %d KV heads, but %d in the model", ErrCalibration, i, len(l.Keys), in.KVHeads)
		}
		for h := range l.Keys {
			if !l.Keys[h].fits(in.HeadDimK) {
				return fmt.Errorf("%w: layer %d head %d has %d channels; the model needs %d finite ones", ErrCalibration, i, h, len(l.Keys[h].Mean), in.HeadDimK)
			}
		}
	}
	return nil
}

// Head returns the calibration of one KV head, which must have headDim values.
func (c *Calibration) Head(layer, head, headDim int) (*Moments, error) {
	if layer < 0 || layer >= len(c.Layers) || head < 0 || head >= len(c.Layers[layer].Keys) {
		return nil, fmt.Errorf("%w: it has no layer %d with a KV head %d", ErrCalibration, layer, head)
	}
	k := &c.Layers[layer].Keys[head]
	if !k.fits(headDim) {
		return nil, fmt.Errorf("%w: layer %d has heads of %d channels; %d finite ones are required", ErrCalibration, layer, len(k.Mean), headDim)
	}
	return k, nil
}

const (
	calibrationMagic   = "gwca\r\n\x1a\n"
	calibrationVersion = 2
	calibrationHeader  = 1 << 20 // largest size of a header in bytes
	calibrationLayers  = 1 << 12
	calibrationHeads   = 1 << 18 // largest number of heads of all layers together
	calibrationData    = 1 << 28 // largest size of all arrays in bytes
)

// calibrationHead describes the arrays that follow it in the file. They are the
// Moments of every layer and KV head, in f32.
type calibrationHead struct {
	Model  string                 `json:"model"`
	Tokens int                    `json:"tokens"`
	Layers []calibrationLayerHead `json:"layers"`
}

type calibrationLayerHead struct {
	Heads   int     `json:"kv_heads"`
	HeadDim int     `json:"head_dim"`
	SenseK  float64 `json:"sense_k"`
	SenseV  float64 `json:"sense_v"`
}

// Write writes a header, the arrays, and a SHA-256 of both, in the form that
// ReadCalibration reads.
func (c *Calibration) Write(w io.Writer) error {
	head := calibrationHead{Model: c.Model, Tokens: c.Tokens}
	var data []byte
	for i := range c.Layers {
		l := &c.Layers[i]
		h := calibrationLayerHead{Heads: len(l.Keys), SenseK: l.SenseK, SenseV: l.SenseV}
		for _, k := range l.Keys {
			h.HeadDim = len(k.Mean)
			for _, x := range k.arrays() {
				for _, v := range *x {
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
				}
			}
		}
		head.Layers = append(head.Layers, h)
	}
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("kv: write calibration: %w", err)
	}
	out := []byte(calibrationMagic)
	out = binary.LittleEndian.AppendUint32(out, calibrationVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	out = append(append(out, text...), data...)
	sum := sha256.Sum256(out)
	_, err = w.Write(append(out, sum[:]...))
	return err
}

// ReadCalibration reads the output of Write. If the data is damaged, it returns
// ErrCalibration.
func ReadCalibration(r io.Reader) (*Calibration, error) {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	read := func(n int64) ([]byte, error) {
		b, err := io.ReadAll(io.LimitReader(in, n))
		if err == nil && int64(len(b)) < n {
			err = fmt.Errorf("%w: the file ends early", ErrCalibration)
		}
		return b, err
	}
	start, err := read(int64(len(calibrationMagic)) + 8)
	if err != nil {
		return nil, err
	}
	version := binary.LittleEndian.Uint32(start[len(calibrationMagic):])
	size := binary.LittleEndian.Uint32(start[len(calibrationMagic)+4:])
	switch {
	case string(start[:len(calibrationMagic)]) != calibrationMagic:
		return nil, fmt.Errorf("%w: not a calibration file", ErrCalibration)
	case version != calibrationVersion:
		return nil, fmt.Errorf("%w: it has format version %d, but this Godwit supports only %d", ErrCalibration, version, calibrationVersion)
	case size > calibrationHeader:
		return nil, fmt.Errorf("%w: its header has %d bytes; the limit is %d", ErrCalibration, size, calibrationHeader)
	}
	text, err := read(int64(size))
	if err != nil {
		return nil, err
	}
	var head calibrationHead
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: its header does not parse: %w", ErrCalibration, err)
	}
	n, err := head.size()
	if err != nil {
		return nil, err
	}
	data, err := read(n)
	if err != nil {
		return nil, err
	}
	want := sum.Sum(nil)
	if got, err := read(sha256.Size); err != nil || !bytes.Equal(got, want) {
		return nil, errors.Join(fmt.Errorf("%w: it is damaged, because its checksum does not match", ErrCalibration), err)
	}
	return head.layers(data), nil
}

// size returns the number of bytes of the arrays after a header. Every head has
// at least one byte, so the size of the file bounds the allocations.
func (h *calibrationHead) size() (n int64, err error) {
	if len(h.Layers) > calibrationLayers {
		return 0, fmt.Errorf("%w: it has %d layers; the limit is %d", ErrCalibration, len(h.Layers), calibrationLayers)
	}
	heads := 0
	for i, lh := range h.Layers {
		if lh.Heads < 0 || lh.Heads > maxKVHeads || lh.HeadDim < 0 || lh.HeadDim > kv.MaxHeadDim || lh.Heads > 0 && lh.HeadDim == 0 ||
			!(lh.SenseK >= 0 && lh.SenseV >= 0) || math.IsInf(lh.SenseK+lh.SenseV, 0) {
			return 0, fmt.Errorf("%w: layer %d: %d heads of %d values, sensitivity %g and %g", ErrCalibration, i, lh.Heads, lh.HeadDim, lh.SenseK, lh.SenseV)
		}
		heads += lh.Heads
		n += int64(lh.Heads) * int64(4*momentArrays*lh.HeadDim)
	}
	if heads > calibrationHeads || n > calibrationData {
		return 0, fmt.Errorf("%w: %d heads in %d bytes, at most %d in %d are possible", ErrCalibration, heads, n, calibrationHeads, calibrationData)
	}
	return n, nil
}

// layers decodes the arrays after a header. data has the size that the header
// states.
func (h *calibrationHead) layers(data []byte) *Calibration {
	c := &Calibration{Model: h.Model, Tokens: h.Tokens}
	for _, lh := range h.Layers {
		l := LayerCalibration{SenseK: lh.SenseK, SenseV: lh.SenseV}
		for range lh.Heads {
			x := make([]float32, momentArrays*lh.HeadDim)
			for i := range x {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			data = data[4*len(x):]
			l.Keys = append(l.Keys, newMoments(x, lh.HeadDim))
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}
