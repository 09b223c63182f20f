package eval

import (
	"fmt"
	"slices"
	"strings"

	"godwit/engine/eval/corpus"
)

// corpusParts are the texts of the corpus, in the order in which Text mixes
// them. Their sources are in corpus/README.md.
var corpusParts = []string{"prose", "dialogue", "code", "table", "korean", "chinese", "arabic"}

// All names the mixture of all parts of the corpus.
const All = "all"

// TextNames lists the names that Text accepts.
func TextNames() []string { return append([]string{All}, corpusParts...) }

// piece is the approximate number of consecutive bytes of one part in the
// mixture, which is about 500 tokens of English.
const piece = 2048

// Text returns a part of the corpus, which the binary embeds. All is a mixture:
// whole lines of every part in turn, until each part is used up.
func Text(name string) (string, error) {
	if name != All {
		if !slices.Contains(corpusParts, name) {
			return "", fmt.Errorf("no text %q in the corpus; choose one of %s", name, strings.Join(TextNames(), ", "))
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
