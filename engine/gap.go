package engine

import (
	"errors"

	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// ErrGap is returned for models whose vocabulary has no tokens for filling a gap
// between two texts.
var ErrGap = errors.New("the vocabulary has no tokens for filling in")

// Gap is a place in a text for the model to fill. All texts are plain: special tokens in
// them are not parsed.
type Gap struct {
	Before, After string
	Files         []GapFile // other files as context
	Begin         string    // text with which the filling begins
}

// GapFile is another file in the same project as the gap.
type GapFile struct{ Name, Text string }

// GapPrompt writes a gap in the form on which models are trained: other files, the
// text before, the text after, and the beginning of the filling, each after its own
// token.
func (m *Model) GapPrompt(g Gap) ([]llm.Token, error) {
	t, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	return gapPrompt(t, g)
}

func gapPrompt(t *tokenizer.Tokenizer, g Gap) ([]llm.Token, error) {
	f := t.FIM()
	if f.Prefix < 0 || f.Suffix < 0 || f.Middle < 0 {
		return nil, ErrGap
	}
	var out []llm.Token
	words := func(text string) { out = append(out, t.EncodeText(text, false, false)...) }
	// In training, the text after the suffix and middle tokens continues a
	// document, so SentencePiece adds no dummy space.
	rest := func(text string) {
		out = t.Encode(out, []tokenizer.Piece{{Text: text}}, tokenizer.Options{Joined: true})
	}
	if t.AddBOS() && t.BOS() >= 0 {
		out = append(out, t.BOS())
	}
	if len(g.Files) > 0 && f.Repo >= 0 {
		out = append(out, f.Repo)
		words("files\n")
	}
	for _, file := range g.Files {
		if f.Sep >= 0 {
			out = append(out, f.Sep)
		}
		words(file.Name + "\n" + file.Text + "\n")
	}
	out = append(out, f.Prefix)
	words(g.Before)
	out = append(out, f.Suffix)
	rest(g.After)
	out = append(out, f.Middle)
	rest(g.Begin)
	return out, nil
}
