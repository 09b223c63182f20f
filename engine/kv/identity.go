package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Identity returns a hash of everything that determines what the bytes of a form mean:
// offsets, packing, levels and rotation.
func (t *Type) Identity() string {
	sum := sha256.New()
	t.digest(func(v ...any) {
		for _, x := range v {
			fmt.Fprintf(sum, "%T:", x)
			if err := binary.Write(sum, binary.LittleEndian, x); err != nil {
				panic("kv: digest of " + t.Name + ": " + err.Error())
			}
		}
	})
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func (t *Type) digest(add func(v ...any)) {
	c, s, r := &t.Codes, &t.Scale, &t.Rotation
	add(int64(t.Elems), int64(t.Bytes), t.Float, uint32(t.Stored))
	add(int64(c.Bits), uint8(c.Packing), int64(c.At), int64(c.High), floatBits(c.Levels))
	add(int64(s.At), int64(s.Min), s.Affine, s.Unit)
	add(int64(r.Size), floatBits(r.Pre), floatBits(r.Mid), floatBits(r.Post), r.Inverse, r.Query)
	if t.Residual != nil {
		add(uint8(t.Residual.Rule), int64(t.Residual.At), int64(t.Residual.Bits), floatBits(t.Residual.Signs), t.Residual.Factor)
	}
	if t.Polar != nil {
		add(int64(t.Polar.Sigma), int64(t.Polar.Radius), int64(t.Polar.Angle))
	}
	if t.Cut != nil {
		for _, b := range t.Cut.blocks {
			b.digest(add)
		}
	}
	for _, p := range t.Join {
		add(int64(p.Dim))
		p.Form.digest(add)
	}
}

// floatBits returns x with its length in front, so that adjacent lists stay
// distinct in the hash.
func floatBits(x []float32) []uint64 {
	out := make([]uint64, 1, 1+len(x))
	out[0] = uint64(len(x))
	for _, v := range x {
		out = append(out, uint64(math.Float32bits(v)))
	}
	return out
}

// ChannelsIdentity returns a hash of the channels of a side; empty without channels.
func ChannelsIdentity(list []Channels) string {
	if list == nil {
		return ""
	}
	sum := sha256.New()
	for _, c := range list {
		for _, x := range [][]float32{c.Mean, c.Gain} {
			if err := binary.Write(sum, binary.LittleEndian, floatBits(x)); err != nil {
				panic("kv: digest of channels: " + err.Error())
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
