package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// A chat in Markdown has its title and its visible messages, each under a
// heading. Before each part is an HTML comment, which readers do not see. It
// describes the part for Import, so that the text is restored byte for byte:
//
//	# Title
//
//	<!-- godwit {"part":"message","role":"user"} -->
//	## User
//
//	the text
const (
	markOpen  = "<!-- godwit "
	markClose = " -->"
)

// mark is the content of the comment before a part.
type mark struct {
	Part   string `json:"part"` // chat, message, reasoning, tool_calls or attachment
	Role   Role   `json:"role,omitempty"`
	Model  string `json:"model,omitempty"`
	System string `json:"system,omitempty"`
	Call   string `json:"tool_call_id,omitempty"`
	Status Status `json:"status,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Time   int64  `json:"time,omitempty"` // milliseconds since 1970
}

// partNames maps parts of a message to their headings.
var partNames = map[string]string{"reasoning": "Reasoning", "tool_calls": "Tool calls", "attachment": "Attachment"}

var roleNames = map[Role]string{System: "System", User: "User", Assistant: "Assistant", Tool: "Tool"}

// ExportMarkdown writes the visible messages of a chat.
func (s *Store) ExportMarkdown(ctx context.Context, w io.Writer, chat int64) error {
	c, err := s.Chat(ctx, chat)
	if err != nil {
		return err
	}
	messages, _, err := s.Path(ctx, chat, Page{})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	writePart(&b, mark{Part: "chat", Model: c.Model, System: c.System, Time: c.Created.UnixMilli()}, "# "+c.Title, "")
	for _, m := range messages {
		writePart(&b, mark{Part: "message", Role: m.Role, Model: m.Model, Call: m.ToolCall, Status: m.Status, Time: m.Created.UnixMilli()},
			"## "+roleNames[m.Role], m.Content)
		if m.Reasoning != "" {
			writePart(&b, mark{Part: "reasoning"}, "### "+partNames["reasoning"], m.Reasoning)
		}
		if len(m.ToolCalls) > 0 {
			writePart(&b, mark{Part: "tool_calls"}, "### "+partNames["tool_calls"], fence("json", string(m.ToolCalls)))
		}
		for _, a := range m.Attachments {
			writePart(&b, mark{Part: "attachment", Name: a.Name, Type: a.Type}, "### "+partNames["attachment"]+" "+a.Name, fence("", a.Text))
		}
	}
	_, err = w.Write(b.Bytes())
	return err
}

// writePart writes one part. A line of the text that looks like a mark gets an
// extra backslash, which readPart removes.
func writePart(b *bytes.Buffer, m mark, heading, text string) {
	var head bytes.Buffer
	enc := json.NewEncoder(&head)
	// the default escapes keep "-->" out of the comment
	if err := enc.Encode(m); err != nil {
		panic("store: " + err.Error()) // cannot fail, because marks contain only strings and a number
	}
	fmt.Fprintf(b, "%s%s%s\n%s\n\n", markOpen, bytes.TrimSpace(head.Bytes()), markClose, heading)
	if text != "" {
		b.WriteString(marked.ReplaceAllString(text, `$1\$2`))
		b.WriteString("\n\n")
	}
}

var (
	marked   = regexp.MustCompile(`(?m)^(\\*)(` + markOpen + `)`)
	unmarked = regexp.MustCompile(`(?m)^(\\*)\\(` + markOpen + `)`)
)

// fence wraps a text in a code fence that is longer than any fence in the text.
func fence(language, text string) string {
	longest := 2
	for run, i := 0, 0; i < len(text); i++ {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	ticks := strings.Repeat("`", longest+1)
	return ticks + language + "\n" + text + "\n" + ticks
}

// unfence reverses fence.
func unfence(text string) string {
	_, inner, ok := strings.Cut(text, "\n")
	end := strings.LastIndexByte(inner, '\n')
	if !ok || end < 0 || !strings.HasPrefix(text, "```") {
		return text
	}
	return inner[:end]
}

// readMarkdown parses a text with one chat and calls store with it.
func readMarkdown(data []byte, now time.Time, store func(*exportedChat) error) error {
	c, err := parseMarkdown(string(data), now)
	if err != nil {
		return err
	}
	return store(&c)
}

func parseMarkdown(text string, now time.Time) (exportedChat, error) {
	if strings.Contains(text, markClose+"\r\n") { // an editor has changed all line ends
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if !strings.HasPrefix(text, markOpen) && !strings.Contains(text, "\n"+markOpen) {
		return readHeadings(text, now)
	}
	var c exportedChat
	c.Created, c.Updated = now, now
	for _, part := range splitParts(text) {
		if err := c.addPart(part, now); err != nil {
			return c, err
		}
		if len(c.Messages) > maxMessages {
			return c, errMessages
		}
	}
	if len(c.Messages) == 0 {
		return c, fmt.Errorf("%w: the file contains no message", ErrInput)
	}
	return c, nil
}

// splitParts cuts a text before each mark.
func splitParts(text string) []string {
	var parts []string
	start := 0
	for at := 0; ; {
		next := strings.Index(text[at:], "\n"+markOpen)
		if next < 0 {
			return append(parts, text[start:])
		}
		at += next + 1
		parts = append(parts, text[start:at])
		start = at
	}
}

// addPart adds a part, whose text starts with its mark.
func (c *exportedChat) addPart(part string, now time.Time) error {
	head, rest, _ := strings.Cut(part, "\n")
	if !strings.HasPrefix(head, markOpen) {
		return nil // text before the first mark
	}
	var m mark
	inner, ok := strings.CutSuffix(strings.TrimPrefix(head, markOpen), markClose)
	if !ok || json.Unmarshal([]byte(inner), &m) != nil {
		return fmt.Errorf("%w: the line %.60q should mark a message, but is incomplete", ErrInput, head)
	}
	heading, body, _ := strings.Cut(rest, "\n")
	body = strings.TrimPrefix(body, "\n")
	if whole, ok := strings.CutSuffix(body, "\n\n"); ok {
		body = whole
	} else {
		body = strings.TrimSuffix(body, "\n") // an editor has removed blank lines at the end
	}
	body = unmarked.ReplaceAllString(body, "$1$2")
	when := now
	if m.Time > 0 {
		when = time.UnixMilli(m.Time)
	}
	switch m.Part {
	case "chat":
		c.Title = strings.TrimSpace(strings.TrimLeft(heading, "# "))
		c.Model, c.System, c.Created, c.Updated = m.Model, m.System, when, when
		return nil
	case "message":
		c.add(Message{Role: m.Role, Content: body, Model: m.Model, ToolCall: m.Call, Status: m.Status, Created: when, Updated: when})
		return nil
	}
	if len(c.Messages) == 0 {
		return fmt.Errorf("%w: %q before the first message", ErrInput, m.Part)
	}
	last := &c.Messages[len(c.Messages)-1]
	switch m.Part {
	case "reasoning":
		last.Reasoning = body
	case "tool_calls":
		last.ToolCalls = json.RawMessage(unfence(body))
	case "attachment":
		last.Attachments = append(last.Attachments, Attachment{m.Name, m.Type, unfence(body)})
	default:
		return fmt.Errorf("%w: part %q", ErrInput, m.Part)
	}
	return nil
}

// add appends a message to the only branch.
func (c *exportedChat) add(m Message) {
	m.ID = int64(len(c.Messages) + 1)
	m.Parent = m.ID - 1
	c.Messages = append(c.Messages, exportedMessage{Message: m})
}

var errMessages = fmt.Errorf("%w: the chat has more than %d messages", ErrInput, maxMessages)

// speaker matches a heading or a bold line that names the speaker.
var speaker = regexp.MustCompile(`(?mi)^(?:#{1,6}[ \t]+|\*\*)[^\w\n]*(user|you|human|assistant|model|ai|bot|chatgpt|claude|system|tool)[ \t]*:?(?:\*\*)?[ \t]*:?[ \t]*\r?$`)

// readHeadings reads Markdown from other programs that has a heading for each
// speaker.
func readHeadings(text string, now time.Time) (exportedChat, error) {
	var c exportedChat
	c.Created, c.Updated = now, now
	found := speaker.FindAllStringSubmatchIndex(text, maxMessages+1)
	if len(found) == 0 {
		return c, fmt.Errorf("%w: not a chat export that Godwit can read: its own JSON or Markdown, conversations.json of ChatGPT or Claude, or Markdown with a heading for each speaker, such as \"## User\"", ErrInput)
	}
	if len(found) > maxMessages {
		return c, errMessages
	}
	for line := range strings.Lines(text[:found[0][0]]) {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			c.Title = strings.TrimSpace(title)
			break
		}
	}
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		role := Assistant
		switch strings.ToLower(text[at[2]:at[3]]) {
		case "user", "you", "human":
			role = User
		case "system":
			role = System
		case "tool":
			role = Tool
		}
		c.add(Message{Role: role, Content: strings.TrimSpace(text[at[1]:end]), Created: now, Updated: now})
	}
	return c, nil
}
