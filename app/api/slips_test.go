package api

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"godwit/engine/llm"
)

// A malformed call is a call in every dialect, streamed and not. A call of an
// unknown function stays text.
func TestSlips(t *testing.T) {
	var script atomic.Pointer[[]llm.Token]
	v := scripted(t, "google-gemma-4-31B-it", func(context.Context, []llm.Token) []llm.Token { return *script.Load() })
	off := false
	for text, call := range map[string]bool{
		`<|tool_call>call:weather{city:'Rome'}<tool_call|>`:   true,
		`<|tool_call>call:weather(city=Rome)<tool_call|>`:     true,
		`<|tool_call>call:weather{city:'Rome'`:                false, // truncated
		`<|tool_call>call:weather(city=Paris)<tool_call|>`:    false, // not in the enum
		`<|tool_call>call:climate{city:'Rome'}<tool_call|>`:   false,
		`The token <|tool_call> opens a call of weather etc.`: false,
	} {
		var tokens []llm.Token
		for _, id := range v.post("/tokenize", object{"content": text, "parse_special": false})["tokens"].([]any) {
			tokens = append(tokens, llm.Token(id.(float64)))
		}
		script.Store(&tokens)
		for name, d := range dialects() {
			for how, s := range v.answer(d, asked{tools: true, tokens: 80, think: &off}) {
				if call && (s.call != "weather" || strings.ReplaceAll(s.arguments, " ", "") != `{"city":"Rome"}` || s.text != "" || s.finish != "tool_calls") {
					t.Errorf("%s %s %q: %+v", name, how, text, s)
				}
				if !call && (s.call != "" || s.text != text) {
					t.Errorf("%s %s %q: %+v", name, how, text, s)
				}
			}
		}
	}
}
