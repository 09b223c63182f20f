package page

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/store"
)

// tool is the definition of a function in OpenAI's form. The page does not call
// functions; the user types their results.
type tool struct {
	Type     string `json:"type" ts:"'function'"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty" ts:"Record<string, unknown>"` // JSON schema of the arguments
	} `json:"function"`
}

// toolResult is the result of a tool call.
type toolResult struct {
	Call    string `json:"tool_call_id"`
	Content string `json:"content"`
}

// empty reports whether a request has nothing for the model.
func (q *asked) empty() bool {
	if len(q.Results) > 0 {
		return slices.ContainsFunc(q.Results, func(r toolResult) bool { return strings.TrimSpace(r.Content) == "" })
	}
	return strings.TrimSpace(q.Content) == "" && len(q.Attachments) == 0
}

// checkTools checks definitions before the page keeps them.
func (p *Page) checkTools(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Tools []json.RawMessage `json:"tools"`
	}
	err := read(w, r, smallBody, &q)
	if err == nil {
		err = openai.CheckTools(q.Tools)
	}
	return nil, err
}

// addResults adds the results of tool calls below parent, and returns the last
// one. With them, every call of the answer above must have exactly one result.
func (p *Page) addResults(ctx context.Context, chat, parent int64, results []toolResult) (store.Message, error) {
	open, err := p.openCalls(ctx, chat, parent)
	if err != nil {
		return store.Message{}, err
	}
	for _, r := range results {
		i := slices.Index(open, r.Call)
		if i < 0 {
			return store.Message{}, bad(textNoCall, r.Call)
		}
		open = slices.Delete(open, i, i+1)
	}
	if len(open) > 0 {
		return store.Message{}, bad(textOpenCalls, len(open))
	}
	last := store.Message{ID: parent}
	for _, r := range results {
		last, err = p.chats(chat).Append(ctx, store.Message{Chat: chat, Parent: last.ID, Role: store.Tool, ToolCall: r.Call, Content: r.Content})
		if err != nil {
			return last, err
		}
	}
	return last, nil
}

// openCalls returns the ids of the tool calls that have no result on the path to a
// message, which is the answer with the calls or one of their results.
func (p *Page) openCalls(ctx context.Context, chat, message int64) ([]string, error) {
	var done []string
	for message != 0 {
		m, err := p.chats(message).Message(ctx, message)
		if err != nil {
			return nil, err
		}
		if m.Chat != chat {
			return nil, store.ErrNotFound
		}
		if m.Role == store.Tool {
			done, message = append(done, m.ToolCall), m.Parent
			continue
		}
		var calls []struct { // calls of models and imported files have many forms
			ID string `json:"id"`
		}
		if len(m.ToolCalls) > 0 && json.Unmarshal(m.ToolCalls, &calls) != nil {
			return nil, nil //nolint:nilerr // calls in an unknown form need no results
		}
		var open []string
		for _, c := range calls {
			if i := slices.Index(done, c.ID); i >= 0 {
				done = slices.Delete(done, i, i+1)
				continue
			}
			open = append(open, c.ID)
		}
		return open, nil
	}
	return nil, nil
}
