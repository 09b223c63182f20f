// Package corpus holds the texts that models are measured on. README.md lists
// their sources.
package corpus

import "embed"

//go:embed *.txt
var files embed.FS

// Text returns a text by its name, such as "code".
func Text(name string) (string, error) {
	b, err := files.ReadFile(name + ".txt")
	return string(b), err
}
