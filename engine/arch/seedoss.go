package arch

import "godwit/engine/model"

func init() { model.Register("seed_oss", model.Arch{Open: openSeedOSS}) }

// openSeedOSS opens Seed-OSS: Llama with RoPE over the halves of a head and
// optional biases on q, k and v.
func openSeedOSS(f *model.File) (model.Model, error) {
	return plain{halves: true, ffnNorm: "post_attention_norm"}.open(f)
}
