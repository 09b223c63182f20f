package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/sample"
)

type chatCmd struct {
	modelArg
	loadFlags
	config.Sampling
	Prompt *string  `short:"p" placeholder:"TEXT" help:"Send this one message and print only the answer."`
	File   string   `short:"f" type:"existingfile" placeholder:"FILE" help:"Send the content of this file as the message. With -p, the content follows the text of -p."`
	Image  []string `placeholder:"FILE" sep:"none" help:"Picture that the first question is about; the model needs a projector. May be given several times."`
	System string   `placeholder:"TEXT" help:"System prompt."`
	Stats  bool     `help:"Print speed and token counts after each answer."`

	ChatTemplateKwargs string `name:"chat-template-kwargs" placeholder:"JSON" default:"" help:"Object whose keys become variables in the chat template."`
	ReasoningBudget    int    `name:"reasoning-budget" placeholder:"N" default:"-1" help:"Maximum reasoning tokens. At the limit, reasoning ends and the answer follows. -1: no limit. 0: no reasoning."`
	ReasoningMessage   string `name:"reasoning-budget-message" placeholder:"TEXT" default:"" help:"Text inserted when --reasoning-budget ends the reasoning."`
	path               string // file of the model
	Reasoning          string `name:"reasoning" default:"auto" enum:"auto,on,off" help:"Whether reasoning models think before they answer: auto, on or off. auto: the template decides."`
}

// message is one message. Content is a string, or a list of parts with pictures.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// Run answers once, or holds a conversation until the input ends.
func (c *chatCmd) Run(r *run) (err error) {
	if c.File != "" {
		b, err := os.ReadFile(c.File)
		if err != nil {
			return err
		}
		text := strings.TrimRight(string(b), "\n")
		if c.Prompt != nil && strings.TrimSpace(text) != "" {
			text = *c.Prompt + "\n\n" + text
		}
		c.Prompt = &text
	}
	if c.Prompt != nil && strings.TrimSpace(*c.Prompt) == "" {
		return usage{errors.New("the prompt is empty")}
	}
	if err := config.Check("chat-template-kwargs", c.ChatTemplateKwargs); err != nil {
		return usage{err}
	}
	c.Parallel = 1
	if c.path, err = r.find(c.Model); err != nil {
		return err
	}
	r.tuned().Load(c.path, &c.Engine)
	e, err := r.open(r.ctx, c.path, &c.loadFlags)
	if err != nil {
		return err
	}
	defer e.Close()
	switch source, notice := e.Model().ChatTemplate(); {
	case source == "" && notice != "":
		return errors.New(notice) // fail before the user types anything
	case notice != "":
		r.log.Warn(notice)
	}
	var talk []message
	if c.System != "" {
		talk = append(talk, message{"system", c.System})
	}
	images, err := c.images(e, c.Image)
	if err != nil {
		return err
	}
	if c.Prompt != nil {
		_, err := c.answer(r.ctx, r, e, append(talk, message{"user", withImages(images, *c.Prompt)}))
		return err
	}
	return c.talk(r, e, talk, images)
}

// images reads picture files as data: URLs.
func (c *chatCmd) images(e *engine.Engine, files []string) ([]string, error) {
	var out []string
	for _, name := range files {
		if !e.Images() {
			return nil, fmt.Errorf("%s: %w", name, e.Model().TextOnly())
		}
		data, err := readImage(name)
		if err != nil {
			return nil, err
		}
		if err := e.CheckImage(data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, "data:;base64,"+base64.StdEncoding.EncodeToString(data))
	}
	return out, nil
}

// imagesIn counts the pictures of a conversation.
func imagesIn(talk []message) (n int) {
	for _, m := range talk {
		if parts, ok := m.Content.([]any); ok {
			n += len(parts) - 1
		}
	}
	return n
}

// withImages returns the content of a question with pictures.
func withImages(images []string, text string) any {
	if len(images) == 0 {
		return text
	}
	var parts []any
	for _, url := range images {
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
	}
	return append(parts, map[string]string{"type": "text", "text": text})
}

const talkHelp = `/image FILE  adds a picture to the next question
/clear  starts a new conversation
/bye    exits, as Ctrl-D does
Ctrl-C  stops an answer; at the prompt, pressed twice, exits
`

// mistyped matches a line that looks like a command, but is not one.
var mistyped = regexp.MustCompile(`^/[a-z]+$`)

// talk reads the user's messages from standard input until the input ends.
func (c *chatCmd) talk(r *run, e *engine.Engine, talk []message, images []string) error {
	fmt.Fprintf(r.err, "%s, %d tokens of context. Ctrl-C stops an answer, Ctrl-D or /bye exits, /? lists the commands.\n", e.Config().Name, e.Context())
	alive, done := signal.NotifyContext(context.WithoutCancel(r.ctx), syscall.SIGTERM)
	defer done()
	in, system, warned := r.lines(), len(talk), false
	for {
		ctx, stop := signal.NotifyContext(alive, os.Interrupt)
		line, err := in.read(ctx, "> ")
		stop()
		switch {
		case alive.Err() != nil, errors.Is(err, errInterrupted) && warned, errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errInterrupted):
			fmt.Fprintln(r.err, "Press Ctrl-C again, Ctrl-D or /bye to exit.")
			warned = true
			continue
		case err != nil:
			return err
		}
		warned = false
		line = strings.TrimSpace(line)
		switch line {
		case "":
			continue
		case "/bye", "/exit", "/quit":
			return nil
		case "/clear":
			talk = talk[:system]
			fmt.Fprintln(r.err, "New conversation.")
			continue
		case "/?", "/help":
			fmt.Fprint(r.err, talkHelp)
			continue
		}
		if file, ok := strings.CutPrefix(line, "/image "); ok {
			more, err := c.images(e, []string{strings.TrimSpace(file)})
			if err != nil {
				fmt.Fprintln(r.err, err)
				continue
			}
			images = append(images, more...)
			fmt.Fprintln(r.err, "Pictures for the next question:", len(images))
			continue
		}
		if mistyped.MatchString(line) {
			fmt.Fprintln(r.err, line, "is not a command; /? lists them.")
			continue
		}
		talk = append(talk, message{"user", withImages(images, line)})
		images = nil
		ctx, stop = signal.NotifyContext(alive, os.Interrupt)
		text, err := c.answer(ctx, r, e, talk)
		stopped := ctx.Err() != nil
		stop()
		if err != nil && !stopped {
			var long *engine.TooLong
			if errors.As(err, &long) {
				fmt.Fprintln(r.err, "The conversation no longer fits the context. /clear starts a new one, -c sets a longer context.")
				talk = talk[:len(talk)-1]
				continue
			}
			return err
		}
		talk = append(talk, message{"assistant", text})
	}
}

// answer streams an answer and returns its text.
func (c *chatCmd) answer(ctx context.Context, r *run, e *engine.Engine, talk []message) (string, error) {
	raw, err := json.Marshal(talk)
	if err != nil {
		return "", err
	}
	chat := &engine.Chat{Messages: raw, Kwargs: json.RawMessage(c.ChatTemplateKwargs)}
	if c.Reasoning != "auto" {
		on := c.Reasoning == "on"
		chat.Thinking = &on
	}
	req := engine.Request{Chat: chat, Sampling: c.params(), MaxTokens: r.tuned().MaxTokens(c.path, max(c.Predict, 0))}
	r.tuned().Sample(c.path, &req.Sampling)
	req.Budget = &engine.Budget{Tokens: c.ReasoningBudget, Message: c.ReasoningMessage}
	if r.screen {
		count := imagesIn(talk)
		req.Encoding = func(n int, share float64) {
			fmt.Fprintf(r.err, "\rpicture %d of %d, %.0f %%   ", n+1, count, 100*share)
			if share == 1 {
				fmt.Fprint(r.err, "\r\x1b[K")
			}
		}
	}
	var text strings.Builder
	var thought string // last piece of reasoning before the first word of the answer
	for ev, err := range e.Generate(ctx, req) {
		if err != nil {
			if r.screen {
				fmt.Fprintln(r.out) // end the line, so that the next output starts on a new one
			}
			return text.String(), errors.Join(err, r.out.Flush())
		}
		switch ev.Kind {
		case engine.Text:
			text.WriteString(ev.Text)
			if thought != "" {
				fmt.Fprint(r.err, strings.Repeat("\n", 2-min(2, trailing(thought))))
				thought = ""
			}
			if _, err := io.WriteString(r.out, r.shown(ev.Text)); err != nil {
				return "", err
			}
		case engine.Reasoning:
			thought = spoken(ev.Text)
			fmt.Fprint(r.err, thought)
		case engine.End:
			fmt.Fprintln(r.out)
			if err := r.out.Flush(); err != nil {
				return "", err
			}
			c.remark(r, ev.Result, text.Len())
		}
		if err := r.out.Flush(); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// trailing counts the line breaks at the end of a text.
func trailing(text string) int { return len(text) - len(strings.TrimRight(text, "\n")) }

// remark prints a line below an answer about how it ended.
func (c *chatCmd) remark(r *run, res *engine.Result, length int) {
	switch {
	case res.Full:
		fmt.Fprintln(r.err, "The answer ended because the context is full. -c sets a longer context.")
	case length == 0 && res.Finish == engine.FinishStop:
		fmt.Fprintln(r.err, "The model returned an empty answer.")
	}
	if c.Stats {
		fmt.Fprintf(r.err, "%d prompt tokens (%d reused) in %v, %d generated in %v\n", res.Prompt, res.Cached, res.Prefill.Round(1e6), res.Completion, res.Decode.Round(1e6))
	}
}

// params returns the sampling parameters of the flags.
func (c *chatCmd) params() sample.Params {
	p := sample.Defaults()
	p.Temperature, p.TopK, p.TopP, p.MinP = c.Temperature, c.TopK, c.TopP, c.MinP
	p.Seed = -1
	if c.Seed != nil {
		p.Seed = *c.Seed
	}
	return p
}
