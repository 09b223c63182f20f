package shaders

import (
	"regexp"
	"strconv"
	"testing"

	"godwit/engine/dtype"
)

// weights.h has a branch for exactly the formats that Weight reports.
func TestWeights(t *testing.T) {
	text, err := sources.ReadFile("weights.h")
	if err != nil {
		t.Fatal(err)
	}
	branches := regexp.MustCompile(`(?m)^#(?:if|elif) (WEIGHT == \d+.*)//`).FindAllStringSubmatch(string(text), -1)
	seen := map[dtype.Type]bool{}
	for _, b := range branches {
		for _, n := range regexp.MustCompile(`\d+`).FindAllString(b[1], -1) {
			id, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			seen[dtype.Type(id)] = true
			if !Weight(dtype.Type(id)) {
				t.Errorf("weights.h reads %v, Weight denies it", dtype.Type(id))
			}
		}
	}
	for w := range weights {
		if !seen[w] {
			t.Errorf("Weight names %v, weights.h has no branch for it", w)
		}
	}
}
