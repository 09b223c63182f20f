package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

func TestSearch(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s, _ := testStore(t, Options{Now: clock.Now})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{Title: "Birds of passage"}))
	texts := []string{
		"The bar-tailed godwit flies eleven thousand kilometres.",
		"Ein Café in Zürich, 100% offen_heute",
		"한국어로 된 질문입니다 그리고 답",
		"日本語の質問 中文问题",
		`fmt.Println("quoted \"text\" AND more")`,
		"Привет, мир! Да",
		strings.Repeat("filler ", 100) + "😀 needle 😀 " + strings.Repeat("filler ", 100),
	}
	for _, text := range texts {
		clock.add(time.Second)
		must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: text}))
	}
	for _, test := range []struct{ query, marked string }{
		{"godwit", "godwit"},
		{"GODWIT flies", "godwit|flies"},
		{"flies godwit", "godwit|flies"},
		{"tail", "tail"},
		{"cafe", "Café"},
		{"café zürich", "Café|Zürich"},
		{"100%", "100%"},
		{"n_h", "n_h"},
		{"질문", "질문"},
		{"된", "된"},
		{"质", ""},
		{"質問 中文", "質問|中文"},
		{`"quoted`, `"quoted`},
		{`\"text\"`, `\"text\"`},
		{`AND OR`, "AND|or"},
		{`text AND`, "text|AND"},
		{"мир", "мир"},
		{"дА", "Да"},
		{"needle", "needle"},
		{"passage", "passage"},
		{"nowhere", ""},
		{"%", "%"},
		{"* NEAR(", ""},
	} {
		hits, err := s.Search(ctx, test.query, 0)
		if err != nil {
			t.Errorf("%q: %v", test.query, err)
			continue
		}
		got := ""
		if len(hits) > 0 {
			units := utf16.Encode([]rune(hits[0].Snippet))
			var marked []string
			for _, m := range hits[0].Marks {
				marked = append(marked, string(utf16.Decode(units[m[0]:m[1]])))
			}
			got = strings.Join(marked, "|")
		}
		if got != test.marked {
			t.Errorf("%q marks %q, want %q (%d hits)", test.query, got, test.marked, len(hits))
		}
	}
	if hits := must[[]Hit](t)(s.Search(ctx, "birds", 0)); len(hits) != 1 || hits[0].Message != 0 || hits[0].Chat != c.ID {
		t.Errorf("title: %+v", hits)
	}
	hits := must[[]Hit](t)(s.Search(ctx, "needle", 0))
	if n := len([]rune(hits[0].Snippet)); n > 2*snippetLen+2 || !strings.HasPrefix(hits[0].Snippet, "…") {
		t.Errorf("snippet of %d runes: %q", n, hits[0].Snippet)
	}
	for _, query := range []string{"", " \t", strings.Repeat("x ", 1000), "\x00"} {
		if _, err := s.Search(ctx, query, 0); err != nil {
			t.Errorf("%.20q: %v", query, err)
		}
	}
}

// TestSearchFollows checks that the index follows edits, deletions and titles, and
// that search returns the newest results up to the limit.
func TestSearchFollows(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s, _ := testStore(t, Options{Now: clock.Now})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{Title: "alpha"}))
	var last Message
	for i := range 5 {
		clock.add(time.Second)
		last = must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Parent: last.ID, Role: User, Content: fmt.Sprint("common word ", i)}))
	}
	hits := must[[]Hit](t)(s.Search(ctx, "common", 2))
	if len(hits) != 2 || hits[0].Message != last.ID {
		t.Errorf("hits %+v", hits)
	}
	title := "beta"
	must[Chat](t)(s.ChangeChat(ctx, c.ID, ChatChange{Title: &title}))
	if err := s.DeleteMessage(ctx, last.ID); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"alpha": 0, "beta": 1, "common": 4, "common 4": 0} {
		if hits := must[[]Hit](t)(s.Search(ctx, query, 0)); len(hits) != want {
			t.Errorf("%q: %d hits, want %d", query, len(hits), want)
		}
	}
	if _, err := s.db.Exec("INSERT INTO message_search(message_search, rank) VALUES ('integrity-check', 1)"); err != nil {
		t.Errorf("the index does not match the messages: %v", err)
	}
}
