package chat

import "strings"

// Tags enclose reasoning in an answer. The zero value: the model marks none.
type Tags struct{ Open, Close string }

// allTags are the tags that models use. For gpt-oss the channels decide.
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

// TagsFor picks the reasoning tags that a template's text shows.
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
