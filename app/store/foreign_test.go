package store

import (
	"context"
	"strings"
	"testing"
)

// A tree as ChatGPT exports it: a root without a message, an empty system message,
// two answers of which the second is visible, a hidden message, and a picture.
const chatGPT = `[{"title":"Birds","create_time":1767225600.5,"update_time":1767225700,"current_node":"e","mapping":{
"root":{"id":"root","message":null,"parent":null,"children":["s"]},
"s":{"id":"s","message":{"author":{"role":"system"},"content":{"content_type":"text","parts":[""]},"metadata":{"is_visually_hidden_from_conversation":true}},"parent":"root"},
"a":{"id":"a","message":{"author":{"role":"user"},"create_time":1767225601,"content":{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer","asset_pointer":"x"},"What bird is this?"]}},"parent":"s"},
"b":{"id":"b","message":{"author":{"role":"assistant"},"content":{"content_type":"text","parts":["A gull."]},"metadata":{"model_slug":"gpt-x"}},"parent":"a"},
"c":{"id":"c","message":{"author":{"role":"assistant"},"content":{"content_type":"thoughts","thoughts":[]}},"parent":"a"},
"d":{"id":"d","message":{"author":{"role":"assistant"},"content":{"content_type":"text","parts":["A godwit."]}},"parent":"c"},
"e":{"id":"e","message":{"author":{"role":"user"},"content":{"content_type":"code","language":"python","text":"print(1)"}},"parent":"d"},
"x":{"id":"x","message":{"author":{"role":"user"},"content":"lost"},"parent":"y"},
"y":{"id":"y","message":null,"parent":"z"},"z":{"id":"z","message":null,"parent":"y"}}},
{"title":"Empty","mapping":{}}]`

func TestImportForeign(t *testing.T) {
	s, _ := testStore(t, Options{})
	ctx := context.Background()
	shown := func(text string) (string, []string) {
		t.Helper()
		chats, err := s.Import(ctx, strings.NewReader(text), nil)
		if err != nil || len(chats) != 1 {
			t.Fatalf("%v, %v", chats, err)
		}
		path, _, err := s.Path(ctx, chats[0].ID, Page{})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, m := range path {
			list = append(list, string(m.Role)+": "+m.Content)
		}
		return chats[0].Title, list
	}
	for _, test := range []struct{ name, text, title, want string }{
		{"ChatGPT", chatGPT, "Birds", "user: [image]\n\nWhat bird is this?|assistant: A godwit.|user: ```python\nprint(1)\n```"},
		{
			"Claude", `[{"uuid":"1","name":"Tea","created_at":"2026-01-01T00:00:00Z","chat_messages":[{"sender":"human","text":"Hi","created_at":"2026-01-01T00:00:01Z"},{"sender":"assistant","text":"","content":[{"type":"text","text":"Hello"}]}]}]`,
			"Tea", "user: Hi|assistant: Hello",
		},
		{
			"Open WebUI", `[{"id":"1","title":"Soup","created_at":1767225600,"chat":{"messages":[{"role":"user","content":"Hi","timestamp":1767225600},{"role":"assistant","content":"Hello","model":"m"}]}}]`,
			"Soup", "user: Hi|assistant: Hello",
		},
		{"a plain list", `[{"name":"Plain","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"other","content":"no"}]}]`, "Plain", "user: Hi"},
	} {
		title, list := shown(test.text)
		if got := strings.Join(list, "|"); title != test.title || got != test.want {
			t.Errorf("%s: %q: %q", test.name, title, got)
		}
	}
	// a chat that is imported again gets another title than its twin
	for _, want := range []string{"Birds (imported)", "Birds (imported 2)"} {
		if title, _ := shown(chatGPT); title != want {
			t.Errorf("a twin is called %q, want %q", title, want)
		}
	}
	for _, text := range []string{`[]`, `[{}]`, `[1]`, `[{"title":"x"`, `[{"mapping":{"a":{"message":{"author":{"role":"user"},"content":"x"}`} {
		if _, err := s.Import(ctx, strings.NewReader(text), nil); err == nil {
			t.Errorf("%s: imported", text)
		}
	}
}
