package eval

import (
	"fmt"
	"slices"
	"strings"

	"godwit/engine/eval/corpus"
)

// corpusParts are the texts of the corpus in the order in which Text mixes
// them; corpus/README.md says where each is from.
var corpusParts = []string{"prose", "dialogue", "code", "table", "korean", "chinese", "arabic"}

// All names the mixture of all parts of the corpus.
const All = "all"

// TextNames lists what Text takes.
func TextNames() []string { return append([]string{All}, corpusParts...) }

// piece is about how many bytes of a part stand together in the mixture: some
// 500 tokens of English.
const piece = 2048

// Text returns a part of the corpus in the binary, or, as All, whole lines of
// every part in turn until each is used up.
func Text(name string) (string, error) {
	if name != All {
		if !slices.Contains(corpusParts, name) {
			return "", fmt.Errorf("no text %q in the corpus; accepted are %s", name, strings.Join(TextNames(), ", "))
		}
		return readPart(name), nil
	}
	rest := make([]string, len(corpusParts))
	for i, name := range corpusParts {
		rest[i] = readPart(name)
	}
	var out strings.Builder
	for left := true; left; {
		left = false
		for i, text := range rest {
			end := min(piece, len(text))
			if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
				end += n + 1
			} else {
				end = len(text)
			}
			out.WriteString(text[:end])
			rest[i] = text[end:]
			left = left || rest[i] != ""
		}
	}
	return out.String(), nil
}

func readPart(name string) string {
	text, err := corpus.Text(name)
	if err != nil {
		panic("eval: " + err.Error()) // embedded, so it exists
	}
	return text
}
