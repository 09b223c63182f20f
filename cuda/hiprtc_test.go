//go:build linux

package cuda

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"godwit/engine/backend"
	"godwit/shaders"
)

// amdCards has one architecture for each wavefront size that the compiler of
// the oldest supported HIP accepts, with its number in the flags of a code
// object.
var amdCards = []struct {
	name   string
	number uint32
	wave32 bool
}{{"gfx1030", 0x36, true}, {"gfx90a", 0x3f, false}}

// needHIP skips a test if HIP's library is not installed, except in CI.
func needHIP(t *testing.T) *rtc {
	t.Helper()
	r, err := openRTC()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return r
}

// TestCodeObjects compiles a kernel of each name with hiprtc, for a card of
// each wavefront size. That does not need a card. The code object must be for
// that card, and its kernel must run in waves of that size.
func TestCodeObjects(t *testing.T) {
	r := needHIP(t)
	seen := map[string]bool{}
	for _, in := range shaders.Instances() {
		if seen[in.Kernel.Name] {
			continue
		}
		seen[in.Kernel.Name] = true
		text, err := in.Kernel.Source(in.Constants)
		if err != nil {
			t.Fatal(err)
		}
		for _, card := range amdCards {
			code, err := r.build(in.Kernel.Name, text, append(slices.Clone(rtcOptions), "--offload-arch="+card.name, "-Werror"))
			if err != nil {
				t.Errorf("%s for %s: %v", in.Name(), card.name, err)
				continue
			}
			number, wave32 := codeObject(t, in.Kernel.Name, code)
			if number != card.number || wave32 != card.wave32 {
				t.Errorf("%s for %s is for card %#x, waves of 32: %v", in.Name(), card.name, number, wave32)
			}
		}
	}
}

// codeObject returns the card that a code object is for, and whether a kernel's
// waves have 32 lanes.
func codeObject(t *testing.T, kernel string, code []byte) (card uint32, wave32 bool) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		t.Fatal(err)
	}
	const amdgpu = 224
	symbols, err := f.DynamicSymbols()
	if err != nil || f.Machine != amdgpu {
		t.Fatalf("%s: machine %v, %v", kernel, f.Machine, err)
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == kernel+".kd" })
	if i < 0 || !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == kernel }) {
		t.Fatalf("%s is not among %v", kernel, symbols)
	}
	s := f.Sections[symbols[i].Section]
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	// The descriptor has 64 bytes. Bit 10 of the word at 56 selects waves of
	// 32.
	descriptor := data[symbols[i].Value-s.Addr:][:64]
	return binary.LittleEndian.Uint32(code[48:]) & 0xff, binary.LittleEndian.Uint16(descriptor[56:])>>10&1 == 1
}

// The error about a wrong source contains the compiler's messages.
func TestCodeObjectFaults(t *testing.T) {
	r := needHIP(t)
	text, err := shaders.Find("unary").Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.build("unary", strings.Replace(text, "KERNEL(unary)(", "KERNEL(unary)(nothing, ", 1), append(slices.Clone(rtcOptions), "--offload-arch=gfx1030"))
	if err == nil || !strings.Contains(err.Error(), "compile: error 6") || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("%v", err)
	}
}

// On a machine without a card, HIP's library lists no device, and opening one
// gives an error.
func TestNoAMDCard(t *testing.T) {
	needHIP(t)
	list, err := AMD().Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		t.Skip("this machine has an AMD card:", list[0].Device)
	}
	_, err = AMD().Open(0, backend.Options{})
	if err == nil || err.Error() != "hip: device 0: there are 0 devices" {
		t.Error(err)
	}
}
