// Package chat turns conversations into prompts and answers into messages.
//
// A Template renders messages and tools into marked pieces of text:
//
//	t, err := chat.New(source, chat.Options{BOS: "<s>", EOS: "</s>"})
//	p, err := t.Render(ctx, chat.Input{Messages: messages, AddGenerationPrompt: true})
//	tokens := encode(p.Pieces) // special tokens count in trusted pieces only
//
// Text that a person typed is never trusted. A control token in it stays plain
// text.
//
// The prompt records how the model writes tool calls and reasoning. Its Parser
// splits an answer into content, reasoning and calls, either while it is generated
// or all at once, with the same result:
//
//	parser := p.Parser("seed of the ids")
//	for text := range answer {
//		deltas := parser.Push(text)
//	}
//	deltas := parser.Finish()
//
// A tool call is held back until it is complete and valid, so its arguments are
// always a JSON object. Text that only looks like a call is returned as content. A
// malformed call is repaired only if it is complete, names an offered function and
// its arguments fit the function's schema. Otherwise all of it is content.
package chat
