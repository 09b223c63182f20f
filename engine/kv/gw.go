package kv

import "encoding/hex"

// The gw family stores a head vector as one block. The channels of the whole
// head are centred and normalised by a calibration, then rotated. The trellis
// codes need no serial decoding. Head sizes other than powers of two from 32 to
// 256 are divided into blocks, the largest first. Source: spec gw-formats.md.
var (
	GW4 = gw("gw4", "4 bits, trellis, newest tokens exact", Balanced, 4, trellis4, 0.0258030)
	GW3 = gw("gw3", "3 bits, trellis, newest tokens exact", Small, 3, trellis3, 0.0251035)
	GW2 = gw("gw2", "2 bits, trellis, newest tokens exact", Small, 2, trellis2, 0.0235811)
)

func init() { register(GW4, GW3, GW2) }

// gw returns the type whose blocks of 256, 128, 64 and 32 values have codes of
// the given bits; unit is the step between levels.
func gw(name, note, group string, bits int, levels []float32, unit float32) *Type {
	t := &Type{
		Name: name, Note: note, Group: group,
		Window: Window{Pinned: 4, Newest: 64}, Heads: Heads{Pad: true},
	}
	var blocks []*Type
	trellis := newTrellis(bits, levels)
	for _, r := range gwRotations {
		blocks = append(blocks, &Type{
			Name: name, Note: note, Normalised: true,
			Elems: r.Size, Bytes: 2 + bits*r.Size/8,
			Codes:    Codes{Bits: bits, Packing: Cyclic, At: 2, Levels: levels, Trellis: trellis},
			Scale:    Scale{Rule: Unbiased, Unit: unit},
			Rotation: r,
			Heads:    Heads{Only: r.Size},
		})
	}
	t.Cut = newCut(blocks)
	return t
}

var gwRotations = []Rotation{
	{Size: 256, Pre: gwSigns, Forward: 1.0 / 16, Inverse: 1.0 / 16, Query: 1.0 / 16},
	{Size: 128, Pre: gwSigns[:128], Forward: 0.08838834764831845, Inverse: 0.08838834764831845, Query: 0.08838834764831845},
	{Size: 64, Pre: gwSigns[:64], Forward: 1.0 / 8, Inverse: 1.0 / 8, Query: 1.0 / 8},
	{Size: 32, Pre: gwSigns[:32], Forward: 0.17677669529663688, Inverse: 0.17677669529663688, Query: 0.17677669529663688},
}

// gwSigns are the two masks of the turbo rotation, concatenated.
var gwSigns = append(append([]float32{}, turboRotation.Pre...), turboRotation.Post...)

// trellisTable holds the level of every 8-bit window, from two's complement
// bytes.
func trellisTable(text string) []float32 {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != trellisLevels {
		panic("kv: bad trellis table")
	}
	t := make([]float32, len(b))
	for i, v := range b {
		t[i] = float32(int8(v))
	}
	return t
}

var (
	trellis2 = trellisTable("" +
		"12e3cdff372df2133bfbaacc0726ea0e2302e3dd08f4c10fd9ecef1081f3d322c3eddefef1b4cd13d82e32ffff30f0df1805" +
		"fb13071a320affcd38fb5deeeb28f50ded2c5214f934d6b8212bbbda07e907251a46dd0443bdb4fd341d230890e316422001" +
		"bdec35cfb521fe2fddf0fbc626dd0e593bfa0cd3e52211c1eb38930fbf2342e3b4ed290afe0fec4fce0de6fdf440091f241c" +
		"d7f101a15ce6ddd60b05f207e578e42ff1f014f9ce19a5542913fd1fe1e148710d1b15f209343dd224b12748fcc0d3e522ee" +
		"300f17e63701cc15db6d52a535d50df2d73407eafcbdb81524f6081eced3f44557ca0eea041639f41fdbbce5cf02e4f8f2ef" +
		"4918160caee3")
	trellis3 = trellisTable("" +
		"12e9dbfb342df80b3bf3add00518e90f0f0be1d3f7f0c4fee4ece40a83fccd1ccdf2e1ffeebcd918e01d2a09fb3cfae61af6" +
		"fb04091b260dfed934024cefea24ef18f12e5b100134d0c61d2fc1da02e90b291a43e6003eb7bf042b1e1f10a2f4122f1d0a" +
		"c6e141d0b1210a30e1edf6c826e6115a380105d6d7211dcdea369312ca253ddfb3f22402f804ee44d10edffdf23504251810" +
		"d8effe9f4de7e4d00f040008f67fe229e7f00efdcf1ca74c300c001ce6ec516a111315f7042838dd29b7284600c6d8e418f4" +
		"260d13e532fcd01cd44f58b731da12f4dc370fedfbc1b7102100061cc6d4ef4364bd02f40e2123f71fdbc0dfd1f4ef03f0f6" +
		"43181307a7e2")
	trellis4 = trellisTable("" +
		"10efe302272df80837fdb4d40615ec0d0c07dfd9fef9d201e8ede60a81f8cc15d3f5e8feedcae214de1d2506fe39f9ef13ff" +
		"03090d1a2508f6dc34fd44efeb20ef14f1265c120128d2c71e31cbd9fbe60f261640e20237c2b5fa2e1b1f0aa5f217322010" +
		"d2dc31d5c1250529e2f7f3cb18e40f523a0109d7d91d1acaed2c951ac72137e4bcec2400fa07f343d70ce2fffd2b0a1e170f" +
		"d9f7fda24dede7e20505f8fdf27de62cf3e90e03cf17ad4c2108051bede94768120c18f80d2233df2abd253cfac5dae11bf2" +
		"2f0b15e62902d40fd94953bd30e60af1de390ef0f8c7b7171d010415cddaed3d5bc003f50c1d27f920d7cfe1ddf5e9fceff2" +
		"3e0f1503afe6")
)
