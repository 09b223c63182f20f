package chat

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// slipTools are the functions that the calls in slips mean.
func slipTools(t testing.TB) *List {
	return list(t, `[
		{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
			"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}},
		{"type": "function", "function": {"name": "edit", "parameters": {"type": "object",
			"properties": {"path": {"type": "string"}, "text": {"type": "string"}, "list": {"type": "array", "items": {"type": "string"}}, "mode": {"$ref": "#/$defs/mode"}},
			"required": ["path"], "$defs": {"mode": {"enum": ["add", "cut"]}}}}},
		{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
	]`)
}

const (
	koeln  = `get_weather {"city":"Köln"}`
	koeln3 = `get_weather {"city":"Köln","days":3}`
)

// slips are malformed calls together with the calls that they mean.
var slips = []struct {
	kind ParserKind
	text string
	want string // calls, one per line; empty if the text stays text
}{
	{Gemma4, `<|tool_call>call:get_weather{city:'Köln',days:3}<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{city:Köln,days:3}<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{city:'Köln<|"|>,days:3}<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{city:<|"|>Köln,days:3}<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{city:<|"|>Köln<|"|>,days:3<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather(city=<|"|>Köln<|"|>,days=3)<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather(city="Köln", days=3)<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather({"city": "Köln", "days": 3})<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{{"city": "Köln", "days": 3,}}<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:get_weather{{city:<|"|>Köln<|"|>}}<tool_call|>`, koeln},
	{Gemma4, `<|tool_call>get_weather{city:<|"|>Köln<|"|>}<tool_call|>`, koeln},
	{Gemma4, `<|tool_call>{"name":"get_weather","arguments":{"city":"Köln"}}<tool_call|>`, koeln},
	{Gemma4, `<|tool_call>call:get_weather{city:San Francisco, CA,days:3}<tool_call|>`, `get_weather {"city":"San Francisco, CA","days":3}`},
	{Gemma4, `<|tool_call>call:get_weather{city:'O'Brien',days:3}<tool_call|>`, `get_weather {"city":"O'Brien","days":3}`},
	{Gemma4, `<|tool_call>call:get_weather(city:'Köln', days:'3')<tool_call|>`, koeln3},
	{Gemma4, `<|tool_call>call:edit{path:a.txt,list:['a','b']}<tool_call|>`, `edit {"list":["a","b"],"path":"a.txt"}`},
	{Gemma4, `<|tool_call>call:edit{path:a.txt,list:[a,b]}<tool_call|>`, `edit {"list":["a","b"],"path":"a.txt"}`},
	{Gemma4, `<|tool_call>call:edit(path=a.txt, mode=cut)<tool_call|>`, `edit {"mode":"cut","path":"a.txt"}`},
	{Gemma4, `<|tool_call>call:edit(path=a.txt, mode=other)<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:now()<tool_call|>`, `now {}`},
	{Gemma4, `<|tool_call>call:now<tool_call|>`, `now {}`},
	{Gemma4, `<|tool_call>call:get_weather<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:get_weather(days=3)<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:get_weather(city="Köln", other=3)<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:nothing{city:'Köln',days:3}<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:nothing(city="Köln")<tool_call|>`, ""},
	{Gemma4, `<|tool_call>call:get_weather(city="Köln", days=3`, ""},

	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln"}}}</tool_call>`, koeln},
	{Hermes, `<tool_call>{{"name": "get_weather", "arguments": {"city": "Köln"}}}</tool_call>`, koeln},
	{Hermes, `<tool_call>{{"name": "get_weather", "arguments": {"city": "Köln"}}</tool_call>`, koeln},
	{Hermes, "<tool_call>\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n```\n</tool_call>", koeln},
	{Hermes, "<tool_call>\n```json\n{'name': 'get_weather', 'arguments': {'city': 'Köln'}}\n```\n</tool_call>", koeln},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln"}</tool_call>`, koeln},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln"</tool_call>`, koeln},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln",}}</tool_call>`, koeln},
	{Hermes, `<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Köln'}}</tool_call>`, koeln},
	{Hermes, `<tool_call>{name: "get_weather", arguments: {city: "Köln", days: 3}}</tool_call>`, koeln3},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln", "days": "3",}}</tool_call>`, koeln3},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Köln", "days": True}}</tool_call>`, ""},
	{Hermes, "<tool_call>{\"name\": \"edit\", \"arguments\": {\"path\": \"x\", \"text\": \"a\nb\"}}</tool_call>", `edit {"path":"x","text":"a\nb"}`},
	{Hermes, `<tool_call>{"name": "edit", "arguments": {"path": "x", "text": "say "hi" now"}}</tool_call>`, `edit {"path":"x","text":"say \"hi\" now"}`},
	{Hermes, `<tool_call>{"name": "get_weather", "city": "Köln"}</tool_call>`, koeln},
	{Hermes, `<tool_call>get_weather{"city": "Köln"}</tool_call>`, koeln},
	{Hermes, `<tool_call>get_weather(city="Köln")</tool_call>`, koeln},
	{Hermes, `<tool_call>{"name": "other", "arguments": {"city": "Köln",}}</tool_call>`, ""},
	{Hermes, `<tool_call>{"name": "other", "arguments": {"city": "Köln"}}}</tool_call>`, ""},
	{Hermes, `<tool_call>{{"name": "get_weather", "arguments": {"town": "Köln"}}}</tool_call>`, ""},
	{Hermes, "<tool_call>\n```json\n{\"name\": \"other\", \"arguments\": {}}\n```\n</tool_call>", ""},
	{Hermes, `<tool_call>{"name": "get_weather", "arguments": {"city": "Kö`, ""},

	{QwenXML, "<tool_call>\n<function=edit>\n<parameter=path>\na\n</parameter>\n<parameter=text>\n<x></parameter> y\n</parameter>\n</function>\n</tool_call>", `edit {"path":"a","text":"<x></parameter> y"}`},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", koeln3},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</function>\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=\"get_weather\">\n<parameter name=\"city\">Köln</parameter></function></tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather\n<parameter=city>\nKöln\n</parameter>\n</function>\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<get_weather>\n<parameter=city>\nKöln\n</parameter>\n</get_weather>\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<city>\nKöln\n</city>\n</function>\n</tool_call>", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<days>\n3\n</days>\n</function>\n</tool_call>", ""},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n</function>\n</tool_", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n</function", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n</", koeln},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</param", ""},
	{QwenXML, "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n", ""},
	{Hermes, `<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Köln'}}</tool_`, koeln},
	{MiniMax, "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Köln</parameter>\n</invoke>\n</minimax:to", koeln},
	{MiniMax, "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Köln</parameter>\n</invo", koeln},
	{CommandR, `<|START_ACTION|>[{"tool_name": "get_weather", "parameters": {"city": "Köln"}}]<|END_A`, koeln},
	{Kimi, `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Köln"}<|tool_call_end|><|tool_calls_sec`, koeln},
	{DeepSeek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Köln\"}<｜tool▁call▁end｜><｜tool▁calls", koeln},
	{GLM, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln</arg_value>\n</tool", koeln},
	{MiniCPM5, `<function name="get_weather"><param name="city">Köln</param></func`, koeln},
	{LFM2, `<|tool_call_start|>[get_weather(city="Köln")]<|tool_call_e`, koeln},
	{Gemma4, `<|tool_call>call:get_weather{city:<|"|>Köln<|"|>}<tool_`, koeln},
	{Apertus, `<|tools_prefix|>[{"get_weather": {"city": "Köln"}}]<|tools_suf`, koeln},
	{TagList, `<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Köln"}}]</TOOL`, koeln},
	{Phi4, `<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Köln"}}]<|/tool`, koeln},
	{DSML, "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Köln</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML", koeln},
	{Functionary, `<function=get_weather>{"city": "Köln"}</func`, koeln},
	{GigaChat31, `<|function_call|>{"name": "get_weather", "arguments": {"city": "Köln"}}<|mess`, koeln},

	{Llama3, `I look it up. {"name": "get_weather", "parameters": {"city": "Köln"}}`, koeln},
	{Llama3, "Sure:\n```json\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Köln\"}}\n```", koeln},
	{Llama3, "```\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Köln\"}}\n```\n", koeln},
	{Llama3, `The call {"name": "get_weather", "parameters": {"city": "Köln"}} would do.`, ""},
	{Llama3, "```json\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Köln\"}}\n```\nis how to call it.", ""},
	{Llama3, `He is {"name": "Ann", "parameters": {"city": "Köln"}}`, ""},
	{Llama3, `So {"name": "get_weather", "parameters": {"days": 3}}`, ""},

	{LFM2, `<|tool_call_start|>[{"name": "get_weather", "arguments": {"city": "Köln"}}, {"name": "now", "arguments": {}}]<|tool_call_end|>`, koeln + "\nnow {}"},
	{LFM2, `<|tool_call_start|>{"name": "get_weather", "arguments": {"city": "Köln"}}<|tool_call_end|>`, koeln},
	{LFM2, `<|tool_call_start|>[get_weather(city="Köln")<|tool_call_end|>`, koeln},
	{LFM2, `<|tool_call_start|>[get_weather(city='O'Brien'), now()]<|tool_call_end|>`, `get_weather {"city":"O'Brien"}` + "\nnow {}"},
	{LFM2, `<|tool_call_start|>[{"name": "other", "arguments": {"city": "Köln"}}]<|tool_call_end|>`, ""},

	{Harmony, `<|channel|>commentary to=functions.get weather <|constrain|>json<|message|>{"city": "Köln"}<|call|>`, koeln},
	{Harmony, `<|channel|>commentary to=functions. get_weather json<|message|>{"city": "Köln"}<|call|>`, koeln},
	{Harmony, `<|channel|>commentary to= functions.get_weather <|constrain|>json<|message|>{"city": "Köln"}<|call|>`, koeln},
	{Harmony, `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Köln"}}<|call|>`, koeln},
	{Harmony, `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{'city': 'Köln', 'days': 3,}<|call|>`, koeln3},
	{Harmony, `<|channel|>commentary to=functions.some thing <|constrain|>json<|message|>{"city": "Köln"}<|call|>`, ""},

	{GLM, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln\n</tool_call>", koeln},
	{GLM, "<tool_call>get_weather<arg_key>city</arg_key>Köln</arg_value></tool_call>", koeln},
	{Mistral, `[TOOL_CALLS]get_weather[ARGS]{"city": "Köln"}}`, koeln},
	{Mistral, `[TOOL_CALLS]get_weather[ARGS]{"city": "Köln"}}[TOOL_CALLS]now[ARGS]{}`, koeln + "\nnow {}"},
	{Kimi, `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Köln"}}<|tool_call_end|><|tool_calls_section_end|>`, koeln},
	{Kimi, `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Köln"}}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`, koeln + "\nnow {}"},
	{DeepSeek, `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{'city': 'Köln'}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`, koeln},
	{MiniMax, "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Köln\n</invoke>\n</minimax:tool_call>", koeln},
	{MiniCPM5, `<function name="get_weather"><param name="city">Köln</function>`, koeln},
	{GigaChat31, `<|function_call|>{"name": "get_weather", "arguments": {"city": "Köln"}}}<|message_sep|>`, koeln},
	{Phi4, `<|tool_call|>[{'name': 'get_weather', 'arguments': {'city': 'Köln'}}]<|/tool_call|>`, koeln},
	{CommandR, `<|START_ACTION|>[{'tool_name': 'get_weather', 'parameters': {'city': 'Köln'}}]<|END_ACTION|>`, koeln},
	{TagList, `<TOOLCALL>[{'name': 'get_weather', 'arguments': {'city': 'Köln'}}]</TOOLCALL>`, koeln},
}

// TestSlips checks that malformed calls are read as the intended calls, however
// they are split into chunks. A call leaves no markup in the content, and text that
// is not a call stays complete.
func TestSlips(t *testing.T) {
	tools := slipTools(t)
	rnd := rand.New(rand.NewPCG(12, 12))
	canon := func(call string) string {
		name, args, _ := strings.Cut(call, "{")
		name = strings.TrimSpace(name)
		var v map[string]any
		if err := json.Unmarshal([]byte("{"+args), &v); err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		out, _ := json.Marshal(v)
		return name + " " + string(out)
	}
	for _, c := range slips {
		o := ParserOptions{Kind: c.kind, Tags: think, Tools: tools}
		first := parse(o, c.text)
		for range 5 {
			got, _ := cutUp(t, rnd, o, c.text)
			if !reflect.DeepEqual(got, first) {
				t.Errorf("%s %q\nin pieces %q\nat once   %q", c.kind, c.text, got, first)
				break
			}
		}
		var calls []string
		for _, call := range first.calls {
			calls = append(calls, canon(call))
		}
		var want []string
		for _, call := range strings.Split(c.want, "\n") {
			if call != "" {
				want = append(want, canon(call))
			}
		}
		if got := strings.Join(calls, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s %q\ncalls %q\nwant  %q, content %q", c.kind, c.text, got, c.want, first.content)
		}
		marked := strings.ContainsAny(first.content, "<{[`|") || strings.Contains(first.content, "call")
		if c.want != "" && marked || c.want == "" && c.kind != Harmony && strings.TrimSpace(first.content) != strings.TrimSpace(c.text) {
			t.Errorf("%s %q: content %q", c.kind, c.text, first.content)
		}
		with := parse(o, "Before. "+c.text)
		if c.kind != Harmony && !reflect.DeepEqual(with.calls, first.calls) {
			t.Errorf("%s behind text %q: calls %q, content %q", c.kind, c.text, with.calls, with.content)
		}
	}
}

// TestMentionsStream checks that text that only mentions calls is emitted at once.
func TestMentionsStream(t *testing.T) {
	for _, c := range []struct {
		kind ParserKind
		text string
	}{
		{Hermes, "Write <tool_call> and then get_weather with its arguments, as in the manual. "},
		{Gemma4, "The token <|tool_call> opens a call of get_weather or of another function. "},
		{Llama3, "A record such as {\"name\": \"Ann\", \"age\": 3} is not a call of get_weather. "},
	} {
		p := NewParser(ParserOptions{Kind: c.kind, Tools: slipTools(t)})
		said := ""
		for _, piece := range strings.SplitAfter(strings.Repeat(c.text, 8), " ") {
			for _, d := range p.Push(piece) {
				said += d.Text
			}
		}
		if n := len(c.text)*8 - len(said); n > 40 {
			t.Errorf("%s: %d bytes are held back: %q", c.kind, n, said)
		}
	}
}

func FuzzRepair(f *testing.F) {
	for _, c := range slips {
		f.Add(string(c.kind), c.text)
	}
	tools := slipTools(f)
	f.Fuzz(func(t *testing.T, kind, text string) {
		if _, err := syntaxOf(ParserKind(kind)); err != nil || len(text) > 4096 {
			return
		}
		_, _, calls := Parse(ParserOptions{Kind: ParserKind(kind), Tags: think, Tools: tools}, text)
		for _, c := range calls {
			if !json.Valid([]byte(c.Arguments)) || c.Name == "" {
				t.Errorf("%q: call %q", text, c)
			}
		}
	})
}
