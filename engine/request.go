package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/engine/chat"
	"godwit/engine/grammar"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/tokenizer"
)

// ErrMask is returned when a grammar rejects a token that its own mask allowed.
// This should never happen. Servers count it to prove that.
var ErrMask = errors.New("the grammar refused a token that it had allowed")

// ErrRequest is the class of errors about invalid requests.
var ErrRequest = errors.New("request")

// Request asks for one answer. Exactly one of Chat, Pieces, Prompt and Tokens must
// be set.
type Request struct {
	Chat   *Chat             // messages for the model's chat template
	Pieces []tokenizer.Piece // text with trusted and untrusted parts
	Prompt string            // plain text; special tokens in it are parsed
	Tokens []llm.Token       // token ids
	Images [][]byte          // picture files, one for each ImageMarker in the text; messages contain their own pictures
	// Fetch returns the file behind the URL of a picture in messages; nil: only data:
	// URLs are read.
	Fetch func(ctx context.Context, url string) ([]byte, error)

	Sampling    sample.Params // the zero value is greedy
	MaxTokens   int           // maximum number of tokens in the answer; 0: until the context is full
	Stop        []string      // texts that end the answer and are not part of it
	Grammar     *grammar.Grammar
	Logprobs    bool   // report the log-probability of each token
	TopLogprobs int    // number of alternatives to report for each token
	IgnoreEOG   bool   // continue after end-of-generation tokens
	Special     bool   // show control tokens in the text
	Fresh       bool   // compute the whole prompt and reuse nothing
	Salt        string // only requests with the same salt share cached text
	Private     bool   // forget the text when the answer ends
	// Kept is called at the end, also after an error, with the key by which EraseText deletes the
	// text, unless nothing of it is kept. It may be nil.
	Kept    func(PrefixKey)
	Slot    *int // the slot to use; nil: any
	OneCall bool // end the answer before a second tool call
	// Encoding is called while picture n, from 0, is encoded, with the share that is
	// done; it may be nil.
	Encoding func(n int, share float64)
	// Prediction is a text that the answer is likely to repeat, for a Drafter.
	Prediction string
	Queued     func() // called once the prompt is tokenised and waits for a slot; may be nil
	Keep       int    // number of tokens at the start that a context shift keeps; -1: the whole prompt

	// Notice is called before the first event, once for each change that was made to the
	// request. It may be nil.
	Notice func(text string)

	Budget  *Budget  // reasoning budget for messages; nil: no limit
	Control *Control // may change the answer while it is generated; may be nil
}

// Kind says what an Event is.
type Kind uint8

// The kinds of events.
const (
	Prefill   Kind = iota // Done of Total prompt tokens have been read
	Text                  // a piece of the answer
	Reasoning             // a piece of the reasoning
	Call                  // a piece of a tool call
	End                   // the last event; Result is set
)

// Event is one step of an answer. Text is valid UTF-8. It never contains
// any part of the stop string that ends the answer.
type Event struct {
	Kind        Kind
	Text        string
	Call        CallDelta
	Tokens      []Token     // tokens of this text, if log-probabilities were requested
	IDs         []llm.Token // token ids of this text, reasoning or call
	Slot        int         // slot that processes the prompt
	Done, Total int
	FromDisk    int // reused tokens of the prompt that were read from disk
	Result      *Result
}

// CallDelta is a piece of a tool call. The first piece of an index has ID and Name.
// The others have parts of Arguments, which together form a JSON object.
type CallDelta struct {
	Index     int
	ID, Name  string
	Arguments string
}

// Token is a generated token.
type Token struct {
	ID      llm.Token
	Bytes   []byte
	Logprob float64
	Top     []TopToken
}

// TopToken is one of the most likely tokens at the position of a Token.
type TopToken struct {
	ID      llm.Token
	Bytes   []byte
	Logprob float64
}

// Finish reasons, in OpenAI's terms.
const (
	FinishStop   = "stop"
	FinishLength = "length"
	FinishTools  = "tool_calls"
)

// Result describes a finished request.
type Result struct {
	Finish     string
	Stop       string // the stop string that ended the answer, or ""
	Tokens     []llm.Token
	Seed       int64
	Slot       int
	Prompt     int    // tokens of the prompt
	Cached     int    // prompt tokens that were reused
	Spliced    int    // reused tokens that were read at another position, see Options.ReuseShifted
	Stored     int    // reused tokens that came from memory or disk, not from a slot
	FromDisk   int    // reused tokens that were read from disk
	Ended      int    // position at which reuse ended
	Why        string // reason why reuse of the prompt ended at that position, without any text of the conversation
	Completion int    // generated tokens, including the one that ended the answer
	Reasoning  int    // reasoning tokens, including the closing tag unless it was inserted
	Drafted    int    // tokens that a Drafter proposed
	Accepted   int    // proposed tokens that became part of the answer
	Prefill    time.Duration
	Decode     time.Duration
	Waited     time.Duration
	Shifts     int      // number of context shifts
	Full       bool     // the answer ended because the context was full
	Broken     []string // violations of the schema where the grammar did not enforce it
}

// Encode tokenises a request's prompt without pictures.
func (m *Model) Encode(ctx context.Context, r *Request) ([]llm.Token, error) {
	a, err := m.parse(ctx, r)
	if err == nil && len(a.images) > 0 {
		err = fmt.Errorf("%w: %w", ErrRequest, m.TextOnly())
	}
	if err != nil {
		return nil, err
	}
	return m.encode(&a)
}

// asked is the prompt of a request before tokenisation.
type asked struct {
	tokens  []llm.Token // token ids; nil for text
	pieces  []tokenizer.Piece
	special bool // add the model's BOS and EOS tokens, as for plain text
	chat    *chat.Prompt
	images  [][]byte // picture files, one for each marker in pieces
	private bool
}

// parse reads the prompt of a request.
func (m *Model) parse(ctx context.Context, r *Request) (a asked, err error) {
	a.private = r.Private
	n := 0
	for _, set := range []bool{r.Chat != nil, r.Pieces != nil, r.Prompt != "", r.Tokens != nil} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return a, fmt.Errorf("%w: the prompt must be exactly one of messages, text and tokens", ErrRequest)
	case r.Tokens != nil:
		if err := m.Config().CheckTokens(r.Tokens); err != nil {
			return a, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		a.tokens = r.Tokens
	case r.Chat != nil:
		var urls []string
		if a.chat, urls, err = m.render(ctx, r.Chat); err != nil {
			return a, err
		}
		for _, piece := range a.chat.Pieces {
			a.pieces = append(a.pieces, tokenizer.Piece{Text: piece.Text, Trusted: piece.Trusted})
		}
		a.images, err = r.fetch(ctx, urls)
		return a, err
	case r.Pieces != nil:
		a.pieces, a.special = r.Pieces, true
	default:
		a.pieces, a.special = []tokenizer.Piece{{Text: r.Prompt, Trusted: true}}, true
	}
	a.images = r.Images
	return a, nil
}

// encode tokenises a prompt without pictures.
func (m *Model) encode(a *asked) ([]llm.Token, error) {
	if a.tokens != nil {
		return a.tokens, nil
	}
	t, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.Encode(nil, a.pieces, tokenizer.Options{AddSpecial: a.special, AddBOS: !a.special, ParseSpecial: true}), nil
}

// Encode tokenises a request's prompt. Rows of pictures have negative ids.
func (e *Engine) Encode(ctx context.Context, r *Request) ([]llm.Token, error) {
	a, err := e.model.parse(ctx, r)
	if err != nil {
		return nil, err
	}
	text, err := e.readPrompt(ctx, &a, nil)
	return text.tokens, err
}

// readPrompt tokenises a prompt and converts its pictures to rows.
func (e *Engine) readPrompt(ctx context.Context, a *asked, progress func(n int, share float64)) (promptText, error) {
	if len(a.images) > 0 {
		return e.illustrate(ctx, a.pieces, a.images, a.private, progress)
	}
	tokens, err := e.model.encode(a)
	return promptText{tokens: tokens}, err
}
