package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// foreignChat is a chat in another program's export, which is a list of chats.
// ChatGPT writes a tree of messages by id (the field mapping). Claude writes a
// list (chat_messages). Open WebUI nests the chat (chat). Others write a list
// of roles and contents (messages).
type foreignChat struct {
	Title    string           `json:"title"`
	Name     string           `json:"name"`
	Created  foreignTime      `json:"create_time"`
	Created2 foreignTime      `json:"created_at"`
	Updated  foreignTime      `json:"update_time"`
	Updated2 foreignTime      `json:"updated_at"`
	Mapping  foreignNodes     `json:"mapping"`
	Current  string           `json:"current_node"`
	Claude   foreignList      `json:"chat_messages"`
	Messages foreignList      `json:"messages"`
	Inner    *json.RawMessage `json:"chat"`
}

// foreignMessage is a message in any of these formats.
type foreignMessage struct {
	Role     string         `json:"role"`
	Sender   string         `json:"sender"`
	Author   foreignAuthor  `json:"author"`
	Text     string         `json:"text"`
	Content  foreignContent `json:"content"`
	Created  foreignTime    `json:"create_time"`
	Created2 foreignTime    `json:"created_at"`
	Created3 foreignTime    `json:"timestamp"`
	Metadata struct {
		Hidden bool   `json:"is_visually_hidden_from_conversation"`
		Model  string `json:"model_slug"`
	} `json:"metadata"`
	Model string `json:"model"`
}

type foreignAuthor struct {
	Role string `json:"role"`
}

// foreignNode is a node of ChatGPT's tree.
type foreignNode struct {
	ID      string
	Message *foreignMessage `json:"message"`
	Parent  string          `json:"parent"`
}

// foreignNodes keeps the order of the file and contains at most maxMessages nodes.
type foreignNodes []foreignNode

func (l *foreignNodes) UnmarshalJSON(data []byte) error {
	in := json.NewDecoder(bytes.NewReader(data))
	if first, err := in.Token(); err != nil || first != json.Delim('{') {
		return err // null, or a value that is not a tree
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		if len(*l) == maxMessages {
			return errMessages
		}
		n := foreignNode{}
		if err := in.Decode(&n); err != nil {
			return err
		}
		n.ID, _ = key.(string)
		*l = append(*l, n)
	}
	return nil
}

type foreignList []foreignMessage

func (l *foreignList) UnmarshalJSON(data []byte) error {
	list, err := readList[foreignMessage](data, maxMessages)
	*l = list
	return err
}

// foreignTime is a number of seconds since 1970, possibly with a fraction, or a
// time in RFC 3339. Anything else becomes the zero time.
type foreignTime struct{ time.Time }

func (t *foreignTime) UnmarshalJSON(data []byte) error {
	var seconds float64
	var text string
	switch {
	case json.Unmarshal(data, &seconds) == nil && seconds > 0 && seconds < 1e11:
		t.Time = time.UnixMilli(int64(1000 * seconds))
	case json.Unmarshal(data, &text) == nil:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			t.Time = at
		}
	}
	return nil
}

// foreignContent is text, a list of parts, or an object with text or parts. A
// part that is not text, such as a picture, is replaced by its name.
type foreignContent string

func (c *foreignContent) UnmarshalJSON(data []byte) error {
	var b strings.Builder
	contentText(&b, data, 0)
	*c = foreignContent(b.String())
	return nil
}

const contentDepth = 4 // maximum nesting depth of parts

func contentText(b *strings.Builder, data []byte, depth int) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || depth > contentDepth {
		return
	}
	add := func(text string) {
		if text == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(text)
	}
	switch data[0] {
	case '"':
		var text string
		if json.Unmarshal(data, &text) == nil {
			add(text)
		}
	case '[':
		parts, err := readList[json.RawMessage](data, maxAttached)
		if err != nil {
			return
		}
		for _, p := range parts {
			contentText(b, p, depth+1)
		}
	case '{':
		var o struct {
			Kind     string          `json:"content_type"`
			Type     string          `json:"type"`
			Language string          `json:"language"`
			Text     json.RawMessage `json:"text"`
			Parts    json.RawMessage `json:"parts"`
		}
		if json.Unmarshal(data, &o) != nil {
			return
		}
		switch kind := cmp.Or(o.Kind, o.Type); {
		case kind == "code":
			var text string
			if json.Unmarshal(o.Text, &text) == nil && text != "" {
				add("```" + strings.TrimPrefix(o.Language, "unknown") + "\n" + text + "\n```")
			}
		case kind == "thoughts", kind == "reasoning_recap", kind == "user_editable_context", kind == "model_editable_context":
		case o.Parts != nil:
			contentText(b, o.Parts, depth+1)
		case o.Text != nil:
			contentText(b, o.Text, depth+1)
		case kind != "":
			add("[" + strings.TrimSuffix(kind, "_asset_pointer") + "]")
		}
	}
}

// message converts a message for the store. It returns false if the message has
// nothing to show.
func (m *foreignMessage) message(now time.Time) (Message, bool) {
	out := Message{Content: string(m.Content), Model: cmp.Or(m.Metadata.Model, m.Model), Created: now, Status: Done}
	if out.Content == "" {
		out.Content = m.Text
	}
	for _, t := range []foreignTime{m.Created, m.Created2, m.Created3} {
		if !t.IsZero() {
			out.Created = t.Time
			break
		}
	}
	out.Updated = out.Created
	switch strings.ToLower(cmp.Or(m.Role, m.Author.Role, m.Sender)) {
	case "user", "human":
		out.Role = User
	case "assistant", "model", "bot":
		out.Role = Assistant
	case "system":
		out.Role = System
	case "tool":
		out.Role = Tool
	default:
		return out, false
	}
	return out, strings.TrimSpace(out.Content) != "" && !m.Metadata.Hidden
}

// chat converts a chat for the store.
func (f *foreignChat) chat(now time.Time) exportedChat {
	var c exportedChat
	c.Title = cmp.Or(f.Title, f.Name)
	c.Created, c.Updated = now, now
	for _, t := range []foreignTime{f.Created, f.Created2} {
		if !t.IsZero() {
			c.Created = t.Time
		}
	}
	c.Updated = c.Created
	for _, t := range []foreignTime{f.Updated, f.Updated2} {
		if !t.IsZero() {
			c.Updated = t.Time
		}
	}
	if f.Mapping != nil {
		f.tree(&c, now)
		return c
	}
	list := f.Messages
	if list == nil {
		list = f.Claude
	}
	for i := range list {
		if m, ok := list[i].message(now); ok {
			c.add(m)
		}
	}
	return c
}

// tree converts ChatGPT's tree. Nodes without text are removed, and their children
// move up.
func (f *foreignChat) tree(c *exportedChat, now time.Time) {
	at := make(map[string]int, len(f.Mapping))
	for i := range f.Mapping {
		at[f.Mapping[i].ID] = i
	}
	ids := make([]int64, len(f.Mapping)) // new ids of the messages that are kept; 0 for the others
	kept := make([]Message, len(f.Mapping))
	var next int64
	for i := range f.Mapping {
		if m := f.Mapping[i].Message; m != nil {
			if out, ok := m.message(now); ok {
				next++
				ids[i], kept[i] = next, out
			}
		}
	}
	above := f.above(at, ids)
	chosen := map[int64]int64{} // visible child by parent
	if i, ok := at[f.Current]; ok {
		if ids[i] == 0 {
			i = above[i]
		}
		for range f.Mapping {
			if i < 0 {
				break
			}
			up := above[i]
			chosen[idOf(ids, up)], i = ids[i], up
		}
	}
	for i := range f.Mapping {
		if ids[i] == 0 {
			continue
		}
		m := kept[i]
		m.ID = ids[i]
		m.Parent = idOf(ids, above[i])
		c.Messages = append(c.Messages, exportedMessage{Message: m, Chosen: chosen[m.ID]})
	}
	c.Chosen = chosen[0]
}

// idOf returns the id of node i, or 0 if there is no such node.
func idOf(ids []int64, i int) int64 {
	if i < 0 {
		return 0
	}
	return ids[i]
}

// above returns the nearest kept ancestor of each node, or -1 without one.
// A node in a cycle has no such ancestor.
func (f *foreignChat) above(at map[string]int, ids []int64) []int {
	const unknown, walking = -2, -3
	out := make([]int, len(f.Mapping))
	for i := range out {
		out[i] = unknown
	}
	for i := range out {
		var way []int
		found := -1
		for j := i; ; {
			if out[j] != unknown {
				if out[j] != walking {
					found = out[j]
				}
				break
			}
			out[j] = walking
			way = append(way, j)
			up, ok := at[f.Mapping[j].Parent]
			if !ok {
				break
			}
			if ids[up] != 0 {
				found = up
				break
			}
			j = up
		}
		for _, j := range way {
			out[j] = found
		}
	}
	return out
}

// readForeign passes on the chats of another program's export. It leaves out chats
// without messages.
func readForeign(data []byte, now time.Time, store func(*exportedChat) error) error {
	in := json.NewDecoder(bytes.NewReader(data))
	if _, err := in.Token(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	chats := 0
	for n := 1; in.More(); n++ {
		var f foreignChat
		err := in.Decode(&f)
		if err == nil && f.Inner != nil && f.Mapping == nil {
			inner := foreignChat{Title: cmp.Or(f.Title, f.Name), Created2: f.Created2, Updated2: f.Updated2}
			if err = json.Unmarshal(*f.Inner, &inner); err == nil {
				f = inner
			}
		}
		if err != nil {
			return fmt.Errorf("%w: chat %d: %w", ErrInput, n, err)
		}
		c := f.chat(now)
		if len(c.Messages) == 0 {
			continue
		}
		chats++
		if err := store(&c); err != nil {
			return err
		}
	}
	if _, err := in.Token(); err != nil && err != io.EOF {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if chats == 0 {
		return fmt.Errorf("%w: no chat with messages in it; Godwit reads its own exports, conversations.json of ChatGPT and Claude, and exports of Open WebUI", ErrInput)
	}
	return nil
}
