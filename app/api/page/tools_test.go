package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit/app/store"
)

// weather is the definition of a tool.
const weather = `{"type":"function","function":{"name":"weather","description":"Looks up the weather.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}`

// TestTools keeps tools in the settings of a chat, and sends them to the model.
func TestTools(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	for fault, want := range map[string]string{
		`{"type":"function"}`:                                               "tools[0].function",
		`{"type":"retrieval","function":{"name":"a"}}`:                      "tools[0].type",
		`{"type":"function","function":{"name":"a b"}}`:                     "tools[0].function.name",
		`{"type":"function","function":{"name":"a","parameters":["city"]}}`: "tools[0].function.parameters",
	} {
		tools := map[string]any{"tools": []json.RawMessage{json.RawMessage(fault)}}
		for path, body := range map[string]any{"/app/tools/check": tools, "/app/chats": map[string]any{"settings": tools}, "/app/presets": map[string]any{"name": "P", "settings": tools}} {
			if status, text := d.refused("POST", path, body); status != http.StatusBadRequest || !strings.Contains(text, want) {
				t.Errorf("%s %s: %d %s, want %s", path, fault, status, text, want)
			}
		}
	}
	ask[any](d, "POST", "/app/tools/check", json.RawMessage(`{"tools":[`+weather+`]}`))
	prompt := func(settings string) int {
		chat := ask[store.Chat](d, "POST", "/app/chats", map[string]any{"model": modelName, "settings": json.RawMessage(settings)})
		m, ok := d.lookUp(modelName)
		r, err := d.request(&chat, &m, []store.Message{{Role: store.User, Content: "Hello"}}, false)
		if err != nil || !ok {
			t.Fatal(err)
		}
		if got, want := string(r.Chat.Tools), ""; strings.Contains(settings, "tools") {
			if want = "[" + weather + "]"; got != want {
				t.Errorf("tools %s, want %s", got, want)
			}
		} else if got != want {
			t.Errorf("tools %s, want none", got)
		}
		_, answer := d.say(chat.ID, 0, "Hello")
		_, final := d.finish(answer.ID)
		return final.Stats.PromptTokens
	}
	bare, with := prompt(`{"max_tokens":4}`), prompt(`{"max_tokens":4,"tools":[`+weather+`]}`)
	if with < bare+20 {
		t.Errorf("%d prompt tokens with a tool, %d without one", with, bare)
	}
}

// TestToolResults resumes an answer that has called tools, with their results.
func TestToolResults(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(4)
	add := func(m store.Message) store.Message {
		m.Chat = chat.ID
		m, err := d.o.Store.Append(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	question := add(store.Message{Role: store.User, Content: "Weather?"})
	calls := json.RawMessage(`[{"id":"a","type":"function","function":{"name":"weather","arguments":"{}"}},{"function":{"name":"weather","arguments":"{}"}},{"id":"b","function":{"name":"weather","arguments":{}}}]`)
	answer := add(store.Message{Role: store.Assistant, Parent: question.ID, ToolCalls: calls})
	path := fmt.Sprintf("/app/chats/%d/messages", chat.ID)
	all := []toolResult{{"b", "Rain"}, {"a", "Sun"}, {"", "Fog"}}
	for name, c := range map[string]struct {
		parent  int64
		results []toolResult
		want    string
	}{
		"an empty result":   {answer.ID, []toolResult{{"a", " "}}, "empty"},
		"an unknown call":   {answer.ID, append(all[:2:2], toolResult{"c", "Hail"}), `tool call \"c\"`},
		"a call twice":      {answer.ID, append(all[:2:2], all[1]), `tool call \"a\"`},
		"a missing result":  {answer.ID, all[:2], "waiting for a result: 1"},
		"a question":        {question.ID, all, `tool call \"b\"`},
		"no message":        {0, all, `tool call \"b\"`},
		"a message of none": {9999, all, "no longer exists"},
	} {
		if status, text := d.refused("POST", path, asked{Parent: c.parent, Results: c.results, Model: modelName}); status/100 != 4 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if o := ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil); o.Total != 2 {
		t.Fatalf("refused results left %d messages, want 2", o.Total)
	}
	list := ask[begun](d, "POST", path, asked{Parent: answer.ID, Results: all, Model: modelName}).Messages
	if len(list) != 4 {
		t.Fatalf("%d messages begun, want three results and the answer", len(list))
	}
	for i, r := range all {
		if m := list[i]; m.Role != store.Tool || m.ToolCall != r.Call || m.Content != r.Content {
			t.Errorf("result %d: %+v", i, m)
		}
	}
	if _, final := d.finish(list[3].ID); final.Status != store.Done || final.Content == "" {
		t.Errorf("the answer: %+v", final)
	}
	// A deleted result can be sent again; the others stay.
	ask[any](d, "DELETE", fmt.Sprintf("/app/messages/%d", list[2].ID), nil)
	list = ask[begun](d, "POST", path, asked{Parent: list[1].ID, Results: all[2:], Model: modelName}).Messages
	if len(list) != 2 || list[0].Content != "Fog" {
		t.Errorf("again: %+v", list)
	}
	d.finish(list[1].ID)
}
