package chat

import "strings"

// Tags are the tags around reasoning in an answer. They are empty if the model
// does not mark reasoning.
type Tags struct{ Open, Close string }

// allTags are the tags that models use. gpt-oss is not listed because it uses
// channels.
var allTags = []Tags{
	{"<seed:think>", "</seed:think>"},
	{"<mm:think>", "</mm:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|channel>thought", "<channel|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"[THINK]", "[/THINK]"},
	{"<think>", "</think>"},
	{"Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"},
}

// TagsFor picks the reasoning tags that a template's text indicates.
func TagsFor(template string) Tags {
	for _, t := range allTags {
		if strings.Contains(template, strings.TrimSpace(t.Open)) && strings.Contains(template, t.Close) {
			return t
		}
		if t.Close == "</think>" && strings.Contains(template, t.Close) {
			return t
		}
	}
	return Tags{}
}

// controlTag reports whether a closing tag is a control token of every model
// that uses it.
func controlTag(tag string) bool {
	return strings.HasPrefix(tag, "<|") || strings.HasSuffix(tag, "|>") || tag == "[/THINK]"
}
