package kv

// The hybrid of AmesianX/TurboQuant for heads of 128: keys are tbq3_1 followed
// by a polar copy that attention does not read, values are tbq3_1.
// Source: spec kv-formats.md section 7.
var (
	AMX3 = &Type{
		Name: "amx3", Aliases: []string{"amx3_1"}, Note: "3 bits and a polar copy, K at head 128", Group: Experimental, Rules: amxRules,
		Elems: 128, Bytes: 108,
		Codes:    Codes{Bits: 3, Packing: Stream, At: 2, Levels: gaussLevels[3], Boundaries: gaussBounds[3]},
		Scale:    Scale{Rule: Norm, Floor: 1e-10},
		Rotation: amxRotation,
		Polar: &Polar{
			Sigma: 50, Radius: 52, Angle: 76,
			Levels:     []float32{0.3399, 0.6422, 0.8651, 1.0730, 1.2869, 1.5277, 1.8371, 2.4546},
			Boundaries: []float32{0.5168, 0.7585, 0.9695, 1.1774, 1.4006, 1.6651, 2.0393},
			Floor:      1. / 1024, Lambda: 0.7, RopeBase: 1e6,
		},
		Heads: Heads{Only: 128, V: "amxv3", Same: true, Else: "tbq3"},
	}
	AMXV3 = &Type{
		Name: "amxv3", Aliases: []string{"amxv3_1"}, Note: "the V of amx3, head 128", Group: Experimental, Rules: amxRules,
		Elems: 128, Bytes: 50,
		Codes:    Codes{Bits: 3, Packing: Stream, At: 2, Levels: gaussLevels[3], Boundaries: gaussBounds[3]},
		Scale:    Scale{Rule: Norm, Floor: 1e-10},
		Rotation: amxRotation,
		Heads:    Heads{Only: 128, K: "tbq3", Else: "tbq3"},
	}
)

func init() { register(AMX3, AMXV3) }

var amxRules = Rules{BypassSWA: true, Wide: true}

var amxRotation = Rotation{Size: 128, Pre: tbqMask[:128], Inverse: 1. / 128, Query: 1. / 128}
