package kernel

import "golang.org/x/sys/cpu"

func simdTiers() (t []Tier) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	t = append(t, AVX2)
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI && x.HasAVX512VNNI {
		t = append(t, AVX512)
	}
	return t
}
