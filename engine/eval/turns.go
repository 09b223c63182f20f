package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"godwit/engine"
	"godwit/engine/llm"
)

// questions are the user's messages in the chat.
var questions = []string{
	"Hello! I would like to plan a small vegetable garden. Where do I start?",
	"The place gets sun only in the morning. Which vegetables do well there?",
	"How often should I water them in summer?",
	"What can I do about snails without poison?",
	"Please make a short list of the tools that I need.",
	"My soil is heavy clay. Does that change your advice?",
	"When is the best time to sow spinach?",
	"Can I grow anything through the winter?",
	"How do I make compost from kitchen scraps?",
	"Thank you. Please sum up the whole plan in three sentences.",
}

// TurnsResult is the result of a chat at temperature 0.
type TurnsResult struct {
	Repeated  float64   `json:"repeated"`  // share of 8-grams in the answers that occurred earlier in the same answer
	Agreement float64   `json:"agreement"` // mean share of an answer, from its start, that equals f16's answer
	Stderr    float64   `json:"stderr"`
	Turns     []float64 `json:"turns"` // agreement of each answer, given after f16's earlier answers
	Tokens    int       `json:"tokens"`
	Note      string    `json:"note,omitempty"`
	TypeK     string    `json:"type_k"`
	TypeV     string    `json:"type_v"`

	// Answers holds f16's answers, for comparison with other pairs.
	Answers []Turn `json:"answers,omitempty"`
}

// Turn is one answer.
type Turn struct {
	Text   string      `json:"text"`
	Tokens []llm.Token `json:"tokens"`
}

// Turns runs a chat of at most ten turns with a limit of tokens per answer.
// Without base, the chat is the base. With base, each turn is also asked after
// the base's answers, so that one difference does not affect later turns.
func Turns(ctx context.Context, e *engine.Engine, turns, tokens int, base []Turn, progress func(float64)) (TurnsResult, error) {
	r := TurnsResult{Turns: []float64{}}
	r.TypeK, r.TypeV = Types(e)
	turns = min(turns, len(questions))
	steps := turns
	if base != nil {
		steps *= 2
	}
	own, err := chat(ctx, e, turns, tokens, nil, func(n int) { progress(float64(n) / float64(steps)) })
	if err != nil {
		return r, err
	}
	var again mean
	for _, t := range own {
		again.add(repeated(t.Tokens, 8))
		r.Tokens += len(t.Tokens)
	}
	r.Repeated = round6(again.value())
	if base == nil {
		r.Answers, r.Agreement = own, 1
		return r, nil
	}
	led, err := chat(ctx, e, turns, tokens, base, func(n int) { progress(float64(turns+n) / float64(steps)) })
	if err != nil {
		return r, err
	}
	var same mean
	for i := range min(len(led), len(base)) {
		s := alike(led[i].Tokens, base[i].Tokens)
		r.Turns = append(r.Turns, round6(s))
		same.add(s)
	}
	r.Agreement, r.Stderr = same.value(), same.stderr()
	if math.IsNaN(r.Agreement) {
		return r, fmt.Errorf("%w: a chat without turns", ErrShort)
	}
	return r, nil
}

// chat answers the questions. If lead is set, each question follows lead's answers,
// otherwise it follows the chat's own answers.
func chat(ctx context.Context, e *engine.Engine, turns, tokens int, lead []Turn, done func(int)) ([]Turn, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	var out []Turn
	for i := range turns {
		messages = append(messages, message{"user", questions[i]})
		raw, err := json.Marshal(messages)
		if err != nil {
			return nil, err
		}
		text, res, err := answer(ctx, e, engine.Request{Chat: &engine.Chat{Messages: raw, RawParts: true}, MaxTokens: tokens})
		if err != nil {
			return nil, err
		}
		out = append(out, Turn{text, res.Tokens})
		said := text
		if lead != nil {
			if i >= len(lead) {
				break
			}
			said = lead[i].Text
		}
		messages = append(messages, message{"assistant", said})
		done(i + 1)
	}
	return out, nil
}
