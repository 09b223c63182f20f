package shaders

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTable compares the table with the sources: the kernel's name, its arguments
// in order with element and direction, and the parameter struct at the end.
func TestTable(t *testing.T) {
	head := regexp.MustCompile(`KERNEL\((\w+)\)\(([^{]*?)\s+INDICES\)`)
	marker := regexp.MustCompile(`(\w+)\((\w+), (\w+), (\d+)\)`)
	markers := map[Dir]string{In: "IN", Out: "OUT", InOut: "INOUT", Sum: "INOUT"}
	for i := range Kernels {
		k := &Kernels[i]
		text, err := sources.ReadFile(k.Files[len(k.Files)-1])
		if err != nil {
			t.Error(err)
			continue
		}
		var found []string
		for _, m := range head.FindAllStringSubmatch(string(text), -1) {
			if m[1] == k.Name {
				for _, a := range marker.FindAllStringSubmatch(m[2], -1) {
					found = append(found, a[1]+" "+a[2]+" "+a[3]+" "+a[4])
				}
			}
		}
		var want []string
		for n, a := range k.Args {
			want = append(want, strings.Join([]string{markers[a.Dir], a.Elem, a.Name, strconv.Itoa(n)}, " "))
		}
		want = append(want, strings.Join([]string{"PARAMS", k.Name + "_params", "p", strconv.Itoa(len(k.Args))}, " "))
		if !reflect.DeepEqual(found, want) {
			t.Errorf("%s: source has %v, table %v", k.Name, found, want)
		}
		if k.Group%32 != 0 || k.Group < 32 || k.Group > 1024 {
			t.Errorf("%s: threadgroups of %d threads", k.Name, k.Group)
		}
	}
}

// TestParams checks that parameter structs contain only 4-byte scalars.
func TestParams(t *testing.T) {
	for i := range Kernels {
		p := reflect.TypeOf(Kernels[i].Params)
		for f := range p.NumField() {
			if _, ok := scalars[p.Field(f).Type.Kind()]; !ok {
				t.Errorf("%s: field %s is a %v", p, p.Field(f).Name, p.Field(f).Type)
			}
		}
		if int(p.Size()) != 4*p.NumField() {
			t.Errorf("%s has %d bytes for %d fields", p, p.Size(), p.NumField())
		}
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{"KVHeads": "kv_heads", "WLen": "w_len", "HeadDim": "head_dim", "GroupA": "group_a", "DimK": "dim_k"} {
		if got := snake(in); got != want {
			t.Errorf("snake(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestConstants(t *testing.T) {
	if _, err := Find("norm").Source(Constants{"SURPRISE": 1}); err == nil {
		t.Error("a constant that the kernel does not take was accepted")
	}
}
