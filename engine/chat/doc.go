// Package chat turns conversations into prompts and answers into messages.
//
// A Template renders messages and tools into marked pieces of text:
//
//	t, err := chat.New(source, chat.Options{BOS: "<s>", EOS: "</s>"})
//	p, err := t.Render(ctx, chat.Input{Messages: messages, AddGenerationPrompt: true})
//	tokens := encode(p.Pieces) // special tokens count in trusted pieces only
//
// What a person typed is never trusted: a control token in it stays text.
//
// The prompt knows how the model writes tool calls and reasoning; its Parser
// takes an answer apart while it is generated, or all at once, with the same
// result:
//
//	parser := p.Parser("seed of the ids")
//	for text := range answer {
//		deltas := parser.Push(text)
//	}
//	deltas := parser.Finish()
//
// A tool call is held back until it is whole and valid: its arguments always
// are a JSON object, and what only looks like a call comes back as content. A
// near miss is a call where it is whole, names a function on offer and its
// arguments fit the function's schema; else all of it is content.
package chat
