package store

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Hit is a search result.
type Hit struct {
	Chat    int64     `json:"chat"`
	Title   string    `json:"title"`
	Message int64     `json:"message"` // id of the message; 0 if the words are in the title
	Role    Role      `json:"role,omitempty"`
	Snippet string    `json:"snippet"` // the words with the text around them
	Marks   [][2]int  `json:"marks"`   // positions of the words in Snippet, in UTF-16 units as in JavaScript
	Updated time.Time `json:"updated"`
}

const (
	maxTerms   = 16
	maxHits    = 200
	gram       = 3  // minimum number of runes of a word that the index finds
	snippetLen = 80 // number of runes shown before and after the first found word
)

// Search finds the chats and messages that contain all words of query, in any
// order and case, even as parts of words. Titles come first, then messages from
// newest to oldest.
func (s *Store) Search(ctx context.Context, query string, limit int) ([]Hit, error) {
	query, err := cleanText(query)
	if err != nil {
		return nil, s.fault("search", err)
	}
	terms := strings.Fields(query)
	if len(terms) == 0 {
		return []Hit{}, nil
	}
	terms = terms[:min(len(terms), maxTerms)]
	if limit <= 0 || limit > maxHits {
		limit = maxHits
	}
	hits := []Hit{}
	collect := func(r row) error {
		var h Hit
		var text string
		var updated int64
		if err := r.Scan(&h.Chat, &h.Title, &h.Message, &h.Role, &text, &updated); err != nil {
			return err
		}
		h.Updated = time.UnixMilli(updated)
		h.Snippet, h.Marks = snippet(text, terms)
		hits = append(hits, h)
		return nil
	}
	where, args := match("chat_search", "c.id", "c.title", terms)
	err = s.each(ctx, "SELECT c.id, c.title, 0, '', c.title, c.updated FROM chat c WHERE "+where+" ORDER BY c.updated DESC LIMIT ?",
		append(args, limit), collect)
	if err != nil {
		return nil, s.fault("search", err)
	}
	where, args = match("message_search", "m.id", "m.content", terms)
	err = s.each(ctx, "SELECT m.chat, c.title, m.id, m.role, m.content, m.updated FROM message m JOIN chat c ON c.id = m.chat WHERE "+where+
		" ORDER BY m.updated DESC, m.id DESC LIMIT ?", append(args, limit-len(hits)), collect)
	return hits, s.fault("search", err)
}

// match builds the SQL condition for words. The index finds words of three or
// more runes. Shorter words are searched in the text of the rows that the index
// found, or of all rows if every word is short.
func match(index, id, column string, terms []string) (where string, args []any) {
	var long, conditions []string
	for _, t := range terms {
		if utf8.RuneCountInString(t) >= gram {
			long = append(long, `"`+strings.ReplaceAll(t, `"`, `""`)+`"`)
		}
	}
	if len(long) > 0 {
		conditions = append(conditions, id+" IN (SELECT rowid FROM "+index+" WHERE "+index+" MATCH ?)")
		args = append(args, strings.Join(long, " AND "))
	}
	for _, t := range terms {
		if utf8.RuneCountInString(t) >= gram {
			continue
		}
		// LIKE ignores case only for ASCII letters
		var either []string
		for _, form := range cases(t) {
			either = append(either, column+` LIKE ? ESCAPE '\'`)
			args = append(args, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(form)+"%")
		}
		conditions = append(conditions, "("+strings.Join(either, " OR ")+")")
	}
	return strings.Join(conditions, " AND "), args
}

// cases returns a short word in lower, upper and title case.
func cases(word string) []string {
	runes := []rune(word)
	first := string(unicode.ToUpper(runes[0])) + strings.ToLower(string(runes[1:]))
	forms := []string{strings.ToLower(word), strings.ToUpper(word), first}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// snippet cuts out the text around the first found word and marks all words in
// it.
func snippet(text string, terms []string) (string, [][2]int) {
	runes := []rune(text)
	folded := fold(runes)
	first := len(runes)
	for _, t := range terms {
		if at := index(folded, fold([]rune(t)), 0); at >= 0 {
			first = min(first, at)
		}
	}
	if first == len(runes) {
		first = 0
	}
	start, end := max(0, first-snippetLen), min(len(runes), first+snippetLen)
	cut := slices.Clone(runes[start:end])
	for i, r := range cut {
		if r == '\n' || r == '\r' || r == '\t' {
			cut[i] = ' '
		}
	}
	lead := ""
	if start > 0 {
		lead = "…"
	}
	tail := ""
	if end < len(runes) {
		tail = "…"
	}
	return lead + string(cut) + tail, marks(folded[start:end], cut, terms, utf8.RuneCountInString(lead))
}

// marks returns the sorted positions of the words, without overlaps. shift is the
// length of the text before cut.
func marks(folded, cut []rune, terms []string, shift int) [][2]int {
	units := make([]int, len(cut)+1) // number of UTF-16 units before each rune
	units[0] = shift
	for i, r := range cut {
		units[i+1] = units[i] + 1
		if r > 0xffff {
			units[i+1]++
		}
	}
	var found [][2]int
	for _, t := range terms {
		word := fold([]rune(t))
		for at := index(folded, word, 0); at >= 0; at = index(folded, word, at+len(word)) {
			found = append(found, [2]int{at, at + len(word)})
		}
	}
	slices.SortFunc(found, func(a, b [2]int) int { return a[0] - b[0] })
	out := [][2]int{}
	last := 0
	for _, f := range found {
		if f[0] >= last {
			out = append(out, [2]int{units[f[0]], units[f[1]]})
			last = f[1]
		}
	}
	return out
}

// fold removes case and accents rune by rune, as the index does.
func fold(runes []rune) []rune {
	out := make([]rune, len(runes))
	for i, r := range runes {
		if r >= utf8.RuneSelf {
			if parts := []rune(norm.NFD.String(string(r))); len(parts) > 1 && unicode.Is(unicode.Mn, parts[1]) {
				r = parts[0]
			}
		}
		out[i] = unicode.ToLower(r)
	}
	return out
}

// index returns the first position of word in text at or after from, or -1.
func index(text, word []rune, from int) int {
	for i := from; i+len(word) <= len(text); i++ {
		if slices.Equal(text[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
