package draft_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/draft"
	"godwit/engine/llm"
)

// A copy is proposed after its first three tokens, and proposals grow while they are right.
func TestNGramCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	source := make([]llm.Token, 200)
	for i := range source {
		source[i] = llm.Token(r.IntN(5000))
	}
	var g draft.NGram
	text := slices.Concat(source, []llm.Token{9999})
	steps := 0
	for n := 0; n < len(source); steps++ {
		proposed := g.Draft(nil, text, 15)
		right := 0
		for right < len(proposed) && n+right < len(source) && proposed[right] == source[n+right] {
			right++
		}
		g.Verified(right)
		next := min(n+right+1, len(source))
		text, n = append(text, source[n:next]...), next
	}
	if steps > 30 {
		t.Errorf("%d steps for a copy of %d tokens, want at most 30", steps, len(source))
	}
}

// A prediction is followed from its beginning. Text that does not repeat gets no proposal.
func TestNGramPredicts(t *testing.T) {
	var g draft.NGram
	g.Predict([]llm.Token{1, 2, 3, 4, 5, 6, 7, 8})
	if got := g.Draft(nil, []llm.Token{90, 91, 2, 3, 4}, 2); !slices.Equal(got, []llm.Token{5, 6}) {
		t.Errorf("behind 2 3 4 it proposes %v, want 5 6", got)
	}
	if got := g.Draft(nil, []llm.Token{90, 91, 2, 3, 4, 50}, 2); len(got) > 0 {
		t.Errorf("it proposes %v behind new text", got)
	}
	if got := g.Draft(nil, []llm.Token{2, 3, 4}, 1); !slices.Equal(got, []llm.Token{5}) {
		t.Errorf("behind a shorter text it proposes %v, want 5", got)
	}
}

// A repetition that overlaps the end of the text is proposed cyclically.
func TestNGramOverlaps(t *testing.T) {
	var g draft.NGram
	got := g.Draft(nil, slices.Repeat([]llm.Token{1, 2}, 20), 6)
	if want := []llm.Token{1, 2, 1, 2, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// While proposals are rejected, short repetitions are ignored.
func TestNGramGivesUp(t *testing.T) {
	var g draft.NGram
	text := []llm.Token{1, 2, 3}
	rows := 0
	for i := range 300 {
		text = append(text, llm.Token(100+i), 1, 2, 3)
		rows += len(g.Draft(nil, text, 15))
		g.Verified(0)
	}
	if rows == 0 || rows > 40 {
		t.Errorf("%d tokens proposed in 300 steps without success, want 1 to 40", rows)
	}
}
