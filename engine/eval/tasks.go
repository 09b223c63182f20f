package eval

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"godwit/engine"
	"godwit/engine/llm"
)

// CopyResult is how often a planted text is given back exactly.
type CopyResult struct {
	Share
	Distances []CopyDistance   `json:"distances"`
	Kinds     map[string]Share `json:"kinds"`
	Exact     []bool           `json:"exact"` // item by item
	Note      string           `json:"note,omitempty"`
	TypeK     string           `json:"type_k"`
	TypeV     string           `json:"type_v"`
}

// CopyDistance is the rate for texts so many tokens back.
type CopyDistance struct {
	Tokens int `json:"tokens"`
	Share
}

// copyNames are names of people and places in several scripts, among them
// foreign ones as Korean spells them: rare syllables that no model guesses.
var copyNames = []string{
	"Marguerite Delacroix-Vasseur", "크리스토퍼 콜럼버스", "Ингеборга Дапкунайте", "레오나르도 다빈치",
	"Søren Kjærgaard", "محمود درويش", "알렉산드르 푸시킨", "Nguyễn Thị Minh Khai", "諸葛亮", "드미트리 쇼스타코비치",
}

// copyKinds make one text each.
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

// Copy plants items, running text of each distance behind them, and asks for
// every item.
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
			got, err := a.ask(ctx, q, want)
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

// recordName is a letter and a digit: A1, B2, …
func recordName(i int) string { return string(rune('A'+i%26)) + strconv.Itoa(1+i%9) }

// NeedleResult is how often a fact is found in a long text.
type NeedleResult struct {
	Share
	Grid  []NeedleCell `json:"grid"`
	Note  string       `json:"note,omitempty"`
	TypeK string       `json:"type_k"`
	TypeV string       `json:"type_v"`
}

// NeedleCell is one length and depth; Keys is how many facts the text has,
// one of which is asked for.
type NeedleCell struct {
	Tokens int     `json:"tokens"`
	Depth  float64 `json:"depth"` // 0: at the start
	Keys   int     `json:"keys"`
	Share
}

var needleCities = []string{"Lisbon", "Nairobi", "Oslo", "Quito", "Seoul", "Tunis", "Vienna", "Zagreb"}

// Needle hides facts in texts of each length at each depth, alone and among
// others, and asks for one.
func Needle(ctx context.Context, e *engine.Engine, lengths []int, depths []float64, trials int, progress func(float64)) (NeedleResult, error) {
	r := NeedleResult{}
	r.TypeK, r.TypeV = Types(e)
	a, err := newAsker(e)
	if err != nil {
		return r, err
	}
	var all mean
	total, done := len(lengths)*len(depths)*2, 0
	for _, n := range lengths {
		if err := a.room("needle", n+32); err != nil {
			return r, err
		}
		for _, depth := range depths {
			for _, keys := range []int{1, 4} {
				var cell mean
				for trial := range trials {
					prompt, want := a.haystack(n, depth, keys, trial)
					got, err := a.ask(ctx, prompt, want)
					if err != nil {
						return r, err
					}
					cell.hit(strings.TrimSuffix(got, ".") == want)
					all.hit(strings.TrimSuffix(got, ".") == want)
				}
				r.Grid = append(r.Grid, NeedleCell{n, depth, keys, cell.share()})
				done++
				progress(float64(done) / float64(total))
			}
		}
	}
	r.Share = all.share()
	return r, nil
}

// haystack is a prompt of about n tokens and the number that it asks for.
func (a *asker) haystack(n int, depth float64, keys, trial int) (prompt []llm.Token, want string) {
	seed := random(n*1000 + int(depth*100)*10 + keys*7 + trial)
	first := seed.below(len(needleCities))
	type needle struct {
		at   float64
		text string
	}
	var needles []needle
	for k := range keys {
		number := strconv.Itoa(seed.between(10000, 99999))
		at := depth + float64(k)/float64(keys)
		if at > 1 {
			at--
		}
		if k == 0 {
			want = number
		}
		needles = append(needles, needle{at, fmt.Sprintf("\nThe secret number of %s is %s.\n", needleCities[(first+k)%len(needleCities)], number)})
	}
	slices.SortStableFunc(needles, func(x, y needle) int { return int(1000 * (x.at - y.at)) })
	question := a.encode(fmt.Sprintf("\n\nThe secret number of %s is", needleCities[first]))
	hay := a.fill(max(n-len(question)-24*keys, 1), trial+1)
	prompt, last := a.start(), 0
	for _, nd := range needles {
		end := int(nd.at * float64(len(hay)))
		prompt = append(append(prompt, hay[last:end]...), a.encode(nd.text)...)
		last = end
	}
	return append(append(prompt, hay[last:]...), question...), want
}

// ArithResult is how often sums come out right.
type ArithResult struct {
	Share
	Kinds map[string]Share `json:"kinds"`
	Equal bool             `json:"repeatable"` // the repeated runs gave the same text
	Runs  int              `json:"runs"`
	Note  string           `json:"note,omitempty"`
	TypeK string           `json:"type_k"`
	TypeV string           `json:"type_v"`
}

// arithKinds make a question and its answer.
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

// Arith asks for sums behind worked examples. The first of each kind is asked
// runs times, and has to give the same text each time.
func Arith(ctx context.Context, e *engine.Engine, items, runs int, progress func(float64)) (ArithResult, error) {
	r := ArithResult{Kinds: map[string]Share{}, Equal: true, Runs: runs}
	r.TypeK, r.TypeV = Types(e)
	a, err := newAsker(e)
	if err != nil {
		return r, err
	}
	seed := random(1)
	shots := ""
	for i := range 6 {
		q, answer := arithKinds[i%len(arithKinds)].make(&seed)
		shots += fmt.Sprintf("%s = %d\n", q, answer)
	}
	if err := a.room("arithmetic", len(a.encode(shots))+64); err != nil {
		return r, err
	}
	var all mean
	kinds := make([]mean, len(arithKinds))
	for i := range items {
		k := i % len(arithKinds)
		q, answer := arithKinds[k].make(&seed)
		prompt := append(a.start(), a.encode(shots+q+" =")...)
		want := strconv.Itoa(answer)
		times := 1
		if i < len(arithKinds) {
			times = max(runs, 1)
		}
		first := ""
		for n := range times {
			got, err := a.ask(ctx, prompt, want)
			if err != nil {
				return r, err
			}
			if n == 0 {
				first = got
			}
			r.Equal = r.Equal && got == first
		}
		all.hit(first == want)
		kinds[k].hit(first == want)
		progress(float64(i+1) / float64(items))
	}
	r.Share = all.share()
	for i, k := range arithKinds {
		r.Kinds[k.name] = kinds[i].share()
	}
	return r, nil
}
