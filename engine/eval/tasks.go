package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"godwit/engine"
	"godwit/engine/llm"
)

// CopyResult is how often a planted text is copied exactly.
type CopyResult struct {
	Share
	Distances []CopyDistance   `json:"distances"`
	Kinds     map[string]Share `json:"kinds"`
	Exact     []bool           `json:"exact"` // whether each item was copied exactly
	Note      string           `json:"note,omitempty"`
	TypeK     string           `json:"type_k"`
	TypeV     string           `json:"type_v"`
}

// CopyDistance is the rate at one distance in tokens.
type CopyDistance struct {
	Tokens int `json:"tokens"`
	Share
}

// copyNames are names of people and places in several scripts. They include
// foreign names in Korean spelling, whose rare syllables no model guesses.
var copyNames = []string{
	"Marguerite Delacroix-Vasseur", "크리스토퍼 콜럼버스", "Ингеборга Дапкунайте", "레오나르도 다빈치",
	"Søren Kjærgaard", "محمود درويش", "알렉산드르 푸시킨", "Nguyễn Thị Minh Khai", "諸葛亮", "드미트리 쇼스타코비치",
}

// copyKinds are functions that each make one text.
var copyKinds = []struct {
	name string
	make func(r *random) string
}{
	{"string", func(r *random) string { return r.word("abcdefghjkmnpqrstuvwxyz23456789", 10) }},
	{"number", func(r *random) string {
		return fmt.Sprintf("%d-%d-%d", r.between(100, 999), r.between(1000, 9999), r.between(1000, 9999))
	}},
	{"code", func(r *random) string {
		return fmt.Sprintf("%s_%d[%c] += 0x%04x;", r.word("abcdefghijklmnopqrstuvwxyz", 5), r.below(100), 'i'+rune(r.below(4)), r.below(1<<16))
	}},
	{"name", func(r *random) string { return copyNames[r.below(len(copyNames))] }},
}

// Copy plants items, adds running text of each distance after them, and asks
// for every item.
func Copy(ctx context.Context, e *engine.Engine, distances []int, items int, progress func(float64)) (CopyResult, error) {
	r := CopyResult{Kinds: map[string]Share{}, Exact: []bool{}}
	r.TypeK, r.TypeV = Types(e)
	a, err := newAsker(e)
	if err != nil {
		return r, err
	}
	var all mean
	kinds := make([]mean, len(copyKinds))
	for d, distance := range distances {
		seed := random(distance)
		prompt := append(a.start(), a.encode("The records of the archive:\n")...)
		var values []string
		for i := range items {
			v := copyKinds[i%len(copyKinds)].make(&seed)
			values = append(values, v)
			prompt = append(prompt, a.encode(fmt.Sprintf("Record %s: %s\n", recordName(i), v))...)
		}
		prompt = append(append(prompt, a.encode("\n")...), a.fill(distance, d+1)...)
		if err := a.room("copy", len(prompt)+64); err != nil {
			return r, err
		}
		var at mean
		for i, want := range values {
			q := append(slices.Clone(prompt), a.encode(fmt.Sprintf("\n\nThe records of the archive:\nRecord %s:", recordName(i)))...)
			got, err := a.continueLine(ctx, q, want)
			if err != nil {
				return r, err
			}
			ok := got == want
			at.hit(ok)
			all.hit(ok)
			r.Exact = append(r.Exact, ok)
			kinds[i%len(copyKinds)].hit(ok)
			progress((float64(d) + float64(i+1)/float64(items)) / float64(len(distances)))
		}
		r.Distances = append(r.Distances, CopyDistance{distance, at.share()})
	}
	r.Share = all.share()
	for i, k := range copyKinds {
		r.Kinds[k.name] = kinds[i].share()
	}
	return r, nil
}

// recordName returns a letter and a digit: A1, B2, …
func recordName(i int) string { return string(rune('A'+i%26)) + strconv.Itoa(1+i%9) }

// NeedleResult is how often a fact is found in a long text.
type NeedleResult struct {
	Share
	Grid  []NeedleCell `json:"grid"`
	Note  string       `json:"note,omitempty"`
	TypeK string       `json:"type_k"`
	TypeV string       `json:"type_v"`
}

// NeedleCell is the result for one length and depth. Keys is the number of
// facts in the text.
type NeedleCell struct {
	Tokens int     `json:"tokens"`
	Depth  float64 `json:"depth"` // place of the fact in the text, from 0 (start) to 1 (end)
	Keys   int     `json:"keys"`
	Share
}

var needleCities = []string{"Lisbon", "Nairobi", "Oslo", "Quito", "Seoul", "Tunis", "Vienna", "Zagreb"}

// MaxDepths is the largest number of depths for Needle, because only this many
// facts have different names.
var MaxDepths = len(needleCities)

// Needle hides facts in texts of each length at each depth, and asks for each
// fact. Each fact is alone in a text, and if there are several depths, all
// facts are also together in one text. With shared it uses only the text with
// all facts, so each length is read once instead of once per depth.
func Needle(ctx context.Context, e *engine.Engine, lengths []int, depths []float64, shared bool, trials int, progress func(float64)) (NeedleResult, error) {
	r := NeedleResult{}
	r.TypeK, r.TypeV = Types(e)
	a, err := newAsker(e)
	if err != nil {
		return r, err
	}
	texts := [][]float64{depths}
	if len(depths) == 1 || !shared {
		texts = nil
		for _, d := range depths {
			texts = append(texts, []float64{d})
		}
		if len(depths) > 1 {
			texts = append(texts, depths)
		}
	}
	var all mean
	total, done := len(lengths)*len(texts)*trials, 0
	for _, n := range lengths {
		if err := a.room("needle", n+32); err != nil {
			return r, err
		}
		for _, at := range texts {
			cells := make([]mean, len(at))
			for trial := range trials {
				if err := a.find(ctx, n, at, trial, cells); err != nil {
					return r, err
				}
				done++
				progress(float64(done) / float64(total))
			}
			for i := range cells {
				all.n, all.sum, all.squares = all.n+cells[i].n, all.sum+cells[i].sum, all.squares+cells[i].squares
				r.Grid = append(r.Grid, NeedleCell{n, at[i], len(at), cells[i].share()})
			}
		}
	}
	r.Share = all.share()
	return r, nil
}

// find hides a fact at each depth of a text of n tokens, asks for every fact,
// and records in the cell of its depth whether it was found.
func (a *asker) find(ctx context.Context, n int, depths []float64, trial int, cells []mean) error {
	seed := random(n*1000 + int(depths[0]*100)*10 + len(depths)*7 + trial)
	first := seed.below(len(needleCities))
	question := func(i int) []llm.Token {
		return a.encode(fmt.Sprintf("\n\nThe secret number of %s is", needleCities[(first+i)%len(needleCities)]))
	}
	order := make([]int, len(depths))
	numbers := make([]string, len(depths))
	for i := range depths {
		order[i], numbers[i] = i, strconv.Itoa(seed.between(10000, 99999))
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(depths[i], depths[j]) })
	hay := a.fill(max(n-len(question(0))-24*len(depths), 1), trial+1)
	text, last := a.start(), 0
	for _, i := range order {
		end := int(depths[i] * float64(len(hay)))
		fact := fmt.Sprintf("\nThe secret number of %s is %s.\n", needleCities[(first+i)%len(needleCities)], numbers[i])
		text = append(append(text, hay[last:end]...), a.encode(fact)...)
		last = end
	}
	text = append(text, hay[last:]...)
	for i, want := range numbers {
		got, err := a.continueLine(ctx, append(slices.Clone(text), question(i)...), want)
		if err != nil {
			return err
		}
		cells[i].hit(strings.TrimSuffix(got, ".") == want)
	}
	return nil
}

// ArithResult is how often sums come out right.
type ArithResult struct {
	Share
	Depths []SumDepth       `json:"depths"`
	Kinds  map[string]Share `json:"kinds"`
	Equal  bool             `json:"repeatable"` // the repeated runs gave the same text
	Runs   int              `json:"runs"`
	Note   string           `json:"note,omitempty"`
	TypeK  string           `json:"type_k"`
	TypeV  string           `json:"type_v"`
}

// SumDepth is the rate after a text of the given number of tokens.
type SumDepth struct {
	Tokens int `json:"tokens"`
	Share
}

// arithKinds are functions that each make a question and its answer.
var arithKinds = []struct {
	name string
	make func(r *random) (string, int)
}{
	{"two digits", func(r *random) (string, int) {
		a, b := r.between(10, 99), r.between(10, 99)
		return fmt.Sprintf("%d + %d", a, b), a + b
	}},
	{"three digits", func(r *random) (string, int) {
		a, b := r.between(500, 999), r.between(100, 499)
		return fmt.Sprintf("%d - %d", a, b), a - b
	}},
	{"two steps", func(r *random) (string, int) {
		a, b, c := r.between(10, 99), r.between(10, 99), r.between(2, 9)
		return fmt.Sprintf("%d + %d - %d", a, b, c), a + b - c
	}},
}

// sumTokens is the number of tokens reserved for the worked examples, a sum and its
// answer.
const sumTokens = 320

// Arith asks for sums after worked examples, which follow a text of each depth.
// The first sum of each kind is asked runs times, and must give the same text each
// time.
func Arith(ctx context.Context, e *engine.Engine, depths []int, items, runs int, progress func(float64)) (ArithResult, error) {
	r := ArithResult{Kinds: map[string]Share{}, Equal: true, Runs: runs}
	r.TypeK, r.TypeV = Types(e)
	a, err := newAsker(e)
	if err != nil {
		return r, err
	}
	var all mean
	kinds := make([]mean, len(arithKinds))
	for d, depth := range depths {
		seed := random(1) // the same sums at every depth
		shots := ""
		for i := range 6 {
			q, answer := arithKinds[i%len(arithKinds)].make(&seed)
			shots += fmt.Sprintf("%s = %d\n", q, answer)
		}
		before := append(a.start(), a.fill(depth, 1)...)
		if depth > 0 {
			shots = "\n\n" + shots
		}
		if err := a.room("arithmetic", len(before)+len(a.encode(shots))+64); err != nil {
			return r, err
		}
		var at mean
		for i := range items {
			k := i % len(arithKinds)
			q, answer := arithKinds[k].make(&seed)
			times := 1
			if i < len(arithKinds) {
				times = max(runs, 1)
			}
			ok, equal, err := a.sum(ctx, append(slices.Clone(before), a.encode(shots+q+" =")...), strconv.Itoa(answer), times)
			if err != nil {
				return r, err
			}
			r.Equal = r.Equal && equal
			at.hit(ok)
			all.hit(ok)
			kinds[k].hit(ok)
			progress((float64(d) + float64(i+1)/float64(items)) / float64(len(depths)))
		}
		r.Depths = append(r.Depths, SumDepth{depth, at.share()})
	}
	r.Share = all.share()
	for i, k := range arithKinds {
		r.Kinds[k.name] = kinds[i].share()
	}
	return r, nil
}

// sum asks a question several times, and reports whether the answer is right
// and whether it is always the same.
func (a *asker) sum(ctx context.Context, prompt []llm.Token, want string, times int) (ok, equal bool, err error) {
	first, equal := "", true
	for n := range times {
		got, err := a.continueLine(ctx, prompt, want)
		if err != nil {
			return false, false, err
		}
		if n == 0 {
			first = got
		}
		equal = equal && got == first
	}
	return first == want, equal, nil
}
