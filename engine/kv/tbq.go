package kv

// The tbq family of AmesianX/TurboQuant: unit-variance Gaussian codebooks after an
// unnormalised signed transform. tbqN stores N bits per value. tbqpN stores N-1
// bits and the sign of the residual, for K. The shorthand names are resolved by
// head size. The suffix _0 is for heads of 256 or 512, _1 for 128, _2 for 64, _3
// for 64 with a second transform, and _4 for the 512 + 64 of latent attention.
// Source: spec kv-formats.md sections 5 and 6.
var (
	TBQ4 = &Type{
		Name: "tbq4", Note: "4 bits, form by head size", Group: Balanced, Rules: tbqRules,
		Heads: Heads{Else: "q8_0", By: map[int][2]string{
			64: {"tbqp4_3", "tbq4_2"}, 128: {"tbq4_1", "tbq4_1"}, 256: {"tbq4_0", "tbq4_0"},
			512: {"tbq4_0", "tbq4_0"}, 576: {"tbq4_4", "tbq4_4"},
		}},
	}
	TBQ3 = &Type{
		Name: "tbq3", Note: "3 bits, form by head size", Group: Small, Rules: tbqRules,
		Heads: Heads{Else: "q8_0", By: map[int][2]string{
			64: {"tbqp3_3", "tbq3_2"}, 128: {"tbq3_1", "tbq3_1"}, 256: {"tbq3_0", "tbq3_0"},
			512: {"tbq3_0", "tbq3_0"}, 576: {"tbq3_4", "tbq3_4"},
		}},
	}
	TBQP4 = &Type{
		Name: "tbqp4", Note: "3 bits and a residual sign, K only", Group: Experimental, Rules: tbqRules,
		Heads: Heads{V: "tbq4", Else: "q8_0", By: map[int][2]string{
			64: {"tbqp4_3"}, 128: {"tbqp4_1"}, 256: {"tbqp4_0"}, 512: {"tbqp4_0"}, 576: {"tbqp4_4"},
		}},
	}
	TBQP3 = &Type{
		Name: "tbqp3", Note: "2 bits and a residual sign, K only", Group: Experimental, Rules: tbqRules,
		Heads: Heads{V: "tbq3", Else: "q8_0", By: map[int][2]string{
			64: {"tbqp3_3"}, 128: {"tbqp3_1"}, 256: {"tbqp3_0"}, 512: {"tbqp3_0"}, 576: {"tbqp3_4"},
		}},
	}
)

func init() {
	register(TBQ4, TBQ3, TBQP4, TBQP3)
	register(tbqForms("tbq3", 3, false, 0.00579, 7.80)...)
	register(tbqForms("tbq4", 4, false, 0.00326, 14.05)...)
	register(tbqForms("tbqp3", 2, true, 0.01304, 3.45)...)
	register(tbqForms("tbqp4", 3, true, 0.00724, 6.13)...)
}

var tbqRules = Rules{BypassSWA: true, ByHead: true, WideHeadV: F16, Wide: true}

// noScale is the offset of a missing residual scale.
const noScale = -1

// tbqForms returns the five forms with one number of bits. sharpen is the attention
// temperature for heads of 256 and more, and soften for heads of 64.
func tbqForms(name string, bits int, residual bool, sharpen, soften float32) []*Type {
	hot, soft := Temper{Sharpen: sharpen}, Temper{Soften: soften}
	f0 := tbqForm(name, 256, bits, Rotation{Size: 256})
	f1 := tbqForm(name, 128, bits, Rotation{Size: 128})
	f2 := tbqForm(name, 64, bits, Rotation{Size: 64})
	f3 := tbqForm(name, 64, bits, Rotation{Size: 64, Pre: tbqMask[:64], Mid: tbqMask[64:128]})
	wide := tbqForm(name, 256, bits, Rotation{Size: 512})
	f3.Scale.Rule, wide.Scale.Rule = RMS, RMS
	if residual {
		for _, f := range []*Type{f1, f2, f3} {
			f.withResidual(Residual{Rule: DirectSign, Factor: 1})
		}
		f0.withResidual(Residual{Rule: Projected, Signs: signs(tbqResidual256), Factor: 1.2533 / 256})
		wide.withResidual(Residual{Rule: Projected, Signs: signs(tbqResidual512), Factor: 1.2533 / 512})
		wide.Scale.Joint = true
	}
	f0.Variants = []Variant{{Dim: 512, Form: wide}}
	f0.Temper, wide.Temper, f2.Temper, f3.Temper = hot, hot, soft, soft
	f4 := &Type{Rules: tbqRules, Join: []Piece{{wide, 512}, {F16, 64}}}
	f4.Elems, f4.Bytes = 576, f4.RowBytes(576)
	f0.Heads.As, f3.Heads = name, Heads{As: name, Old: true, Only: 64}
	f1.Heads, f2.Heads, f4.Heads = Heads{Only: 128}, Heads{Only: 64}, Heads{Only: 576}
	forms := []*Type{f0, f1, f2, f3, f4}
	suffix := []string{"_0", "_1", "_2", "_3", "_4"}
	for i, f := range forms {
		f.Name = name + suffix[i]
		f.Heads.Else = "q8_0"
		if residual {
			f.Heads.V = "tbq" + name[len("tbqp"):] + suffix[i]
		}
	}
	wide.Name = f0.Name
	return forms
}

// tbqForm returns a form without residual: f16 norm, then a stream of codes.
func tbqForm(name string, elems, bits int, r Rotation) *Type {
	if r.Pre == nil {
		r.Pre = tbqMask[:r.Size]
	}
	r.Inverse = 1 / float32(r.Size)
	r.Query = r.Inverse
	if r.Mid != nil {
		r.Query *= r.Inverse
	}
	return &Type{
		Name: name, Rules: tbqRules, Elems: elems, Bytes: 2 + elems*bits/8,
		Codes:    Codes{Bits: bits, Packing: Stream, At: 2, Levels: gaussLevels[bits], Boundaries: gaussBounds[bits]},
		Scale:    Scale{Rule: Norm, Floor: 1e-10},
		Rotation: r,
	}
}

// withResidual adds the residual's scale after the norm, and its signs at the
// end.
func (t *Type) withResidual(r Residual) {
	t.Codes.At += 2
	r.At = 2
	r.Bits = t.Bytes + 2
	t.Bytes += 2 + t.Elems/8
	t.Residual = &r
}

var tbqMask = signs("a73b91f46dc2580eb37f24d68945ea1c63afd852970be13d76c419fe4a852cdb" +
	"d34ea8179c5be63172b90df5438a6ec7582f94e1b63d0a7cc561d84fa3971e85")

const (
	tbqResidual256 = "d34ea8179c5be63172b90df5438a6ec7582f94e1b63d0a7cc561d84fa3971e85"
	tbqResidual512 = "214e758d12a104886c5d2cb38ce200d430c215382bb0a532f8be8a1d4386f36f" +
		"bc9bddcb058a09f32f39173c6fb8757874446f2a6a23250d614f35bb047bbc3d"
)

// The unit-variance Gaussian codebooks, by bits.
var gaussLevels = map[int][]float32{
	2: {-1.5104, -0.4528, 0.4528, 1.5104},
	3: {-2.1520, -1.3440, -0.7560, -0.2451, 0.2451, 0.7560, 1.3440, 2.1520},
	4: {
		-2.7326, -2.0690, -1.6180, -1.2562, -0.9424, -0.6568, -0.3881, -0.1284,
		0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6180, 2.0690, 2.7326,
	},
}

var gaussBounds = map[int][]float32{
	2: {-0.9816, 0, 0.9816},
	3: {-1.7480, -1.0500, -0.5006, 0, 0.5006, 1.0500, 1.7480},
	4: {
		-2.4008, -1.8435, -1.4371, -1.0993, -0.7996, -0.5225, -0.2583, 0,
		0.2583, 0.5225, 0.7996, 1.0993, 1.4371, 1.8435, 2.4008,
	},
}
