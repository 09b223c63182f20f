package chat

import "strings"

// ParserKind is the syntax in which a model writes tool calls.
type ParserKind string

// The syntaxes. The comment shows a call of f with the argument a.
const (
	Generic     ParserKind = "generic"     // {"name": "f", "arguments": {"a": 1}}, alone or in tool_calls
	Llama3      ParserKind = "llama3"      // {"name": "f", "parameters": {"a": 1}}, or <|python_tag|>f.call(a=1)
	Hermes      ParserKind = "hermes"      // <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
	QwenXML     ParserKind = "qwen-xml"    // <tool_call><function=f><parameter=a>1</parameter></function></tool_call>
	Mistral     ParserKind = "mistral"     // [TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}], or [TOOL_CALLS]f[ARGS]{"a": 1}
	DeepSeek    ParserKind = "deepseek"    // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
	DSML        ParserKind = "dsml"        // <｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1…
	GLM         ParserKind = "glm"         // <tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>
	Harmony     ParserKind = "harmony"     // <|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
	Gemma       ParserKind = "gemma"       // ```tool_code f(a=1)```, [f(a=1)], or {"name": "f", "parameters": {"a": 1}}
	Gemma4      ParserKind = "gemma4"      // <|tool_call>call:f{a:1}<tool_call|>
	Phi4        ParserKind = "phi4"        // <|tool_call|>[{"name": "f", "arguments": {"a": 1}}]<|/tool_call|>
	CommandR    ParserKind = "command-r"   // <|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>
	Kimi        ParserKind = "kimi"        // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>
	MiniMax     ParserKind = "minimax"     // <minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>
	LFM2        ParserKind = "lfm2"        // <|tool_call_start|>[f(a=1)]<|tool_call_end|>
	Apertus     ParserKind = "apertus"     // <|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>
	TagList     ParserKind = "tag-list"    // <TOOLCALL>[{"name": "f", "arguments": {"a": 1}}]</TOOLCALL>
	Functools   ParserKind = "functools"   // functools[{"name": "f", "arguments": {"a": 1}}]
	Functionary ParserKind = "functionary" // <function=f>{"a": 1}</function>
)

// ParserKinds returns all syntaxes.
func ParserKinds() []ParserKind {
	return []ParserKind{
		Generic, Llama3, Hermes, QwenXML, Mistral, DeepSeek, DSML, GLM, Harmony, Gemma, Gemma4, Phi4, CommandR,
		Kimi, MiniMax, LFM2, Apertus, TagList, Functools, Functionary,
	}
}

// kindMarks are what gives a syntax away in a template: all words of one row.
// The first row that fits counts.
var kindMarks = []struct {
	kind  ParserKind
	words []string
}{
	{Harmony, []string{"<|channel|>", "<|message|>"}},
	{Gemma4, []string{"<|tool_call>"}},
	{Mistral, []string{"[TOOL_CALLS]"}},
	{DSML, []string{"｜DSML｜"}},
	{DeepSeek, []string{"<｜tool▁calls▁begin｜>"}},
	{DeepSeek, []string{"<｜tool▁call▁begin｜>"}},
	{Kimi, []string{"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}},
	{GLM, []string{"<arg_key>", "<tool_call>"}},
	{QwenXML, []string{"<function=", "<parameter="}},
	{TagList, []string{"<tool_calls>["}},
	{MiniMax, []string{"<minimax:tool_call>"}},
	{Hermes, []string{"<tool_call>"}},
	{LFM2, []string{"<|tool_call_start|>"}},
	{LFM2, []string{"<|tool_list_start|>"}},
	{Phi4, []string{"<|tool_call|>"}},
	{Phi4, []string{"<|tool|>", "<|/tool|>"}},
	{CommandR, []string{"<|START_ACTION|>"}},
	{CommandR, []string{"Action:", "tool_name"}},
	{Apertus, []string{"<|tools_prefix|>"}},
	{TagList, []string{"<TOOLCALL>"}},
	{TagList, []string{"<tool_calls>"}},
	{Functools, []string{"functools["}},
	{Functionary, []string{"<function="}},
	{Llama3, []string{"<|python_tag|>"}},
	{Llama3, []string{"<|start_header_id|>", `"parameters"`}},
	{Gemma, []string{"<start_of_turn>"}},
}

// ParserFor picks the syntax of tool calls that a template's text shows.
func ParserFor(template string) ParserKind {
	for _, row := range kindMarks {
		if containsAll(template, row.words) {
			return row.kind
		}
	}
	return Generic
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

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
