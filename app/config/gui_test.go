package config

import (
	"regexp"
	"testing"
)

// The page has its own help texts: short, without flags, and without the command
// line's special values.
func TestGUI(t *testing.T) {
	terminal := regexp.MustCompile(`--|\b([Uu]nset|[Aa]uto|-?[0-9]+): |several times|\bgodwit `)
	for _, f := range Fields() {
		if f.Hidden {
			continue
		}
		if f.GUI == "" || len(f.GUI) > 140 || terminal.MatchString(f.GUI) {
			t.Errorf("%s: the page says %q", f.Name, f.GUI)
		}
	}
}
