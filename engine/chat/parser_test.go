package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"godwit/engine/chat/jinja"
	"godwit/engine/internal/spent"
)

// testTools are functions with parameters of every type.
func testTools(t testing.TB) *List {
	t.Helper()
	v, err := Decode([]byte(`[
		{"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": {"type": "object",
			"properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "hot": {"type": "boolean"},
				"list": {"type": "array"}, "any": {}, "more": {"type": ["string", "null"]}, "unit": {"enum": ["c", "f"]}},
			"required": ["city"]}}},
		{"type": "function", "function": {"name": "python", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}}},
		{"type": "function", "function": {"name": "now"}}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*List)
}

// message is the content, reasoning and calls of an answer.
type answer struct {
	content, reasoning string
	calls              []string // each call's name and arguments
}

func parse(o ParserOptions, text string) answer {
	var a answer
	var calls []Call
	a.content, a.reasoning, calls = Parse(o, text)
	for _, c := range calls {
		a.calls = append(a.calls, c.Name+c.Arguments)
	}
	return a
}

var think = Tags{"<think>", "</think>"}

// answers are model answers with the messages that they contain.
var answers = []struct {
	kind ParserKind
	tags Tags
	open bool
	text string
	want answer
}{
	// plain answers
	{Hermes, Tags{}, false, " Hello,\n world! \n", answer{content: " Hello,\n world! \n"}},
	{Hermes, think, false, "", answer{}},
	{Hermes, think, false, "  \n", answer{content: "  \n"}},
	{Generic, Tags{}, false, "a < b and <tool and {\"x\": 1}", answer{content: "a < b and <tool and {\"x\": 1}"}},
	// reasoning
	{Hermes, think, false, "<think>\nwhy\n</think>\n\nso", answer{content: "so", reasoning: "why"}},
	{Hermes, think, true, "\nwhy\n not\n</think>\n\nso ", answer{content: "so ", reasoning: "why\n not"}},
	{Hermes, think, true, "cut off", answer{reasoning: "cut off"}},
	{Hermes, think, true, "</think>so", answer{content: "so"}},
	{Hermes, think, false, "first <think>x</think> then", answer{content: "firstthen", reasoning: "x"}},
	{Mistral, Tags{"[THINK]", "[/THINK]"}, false, "[THINK]hm[/THINK]Hi [TH", answer{content: "Hi [TH", reasoning: "hm"}},
	{CommandR, Tags{"<|START_THINKING|>", "<|END_THINKING|>"}, false, "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", answer{content: "b", reasoning: "a"}},
	{Gemma4, Tags{"<|channel>thought", "<channel|>"}, false, "<|channel>thought\nhm\n<channel|>Hi", answer{content: "Hi", reasoning: "hm"}},
	// Hermes
	{Hermes, think, true, "x</think>\n\nSure.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris </tool_call>\"}}\n</tool_call>", answer{"Sure.", "x", []string{`get_weather{"city": "Paris </tool_call>"}`}}},
	{Hermes, Tags{}, false, "<tool_call>{\"name\": \"now\"}</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}\n</tool_call>", answer{"", "", []string{"now{}", `now{"a": 1}`}}},
	{Hermes, Tags{}, false, "<tool_call>{\"name\": \"now\", \"arguments\": {}}", answer{"", "", []string{"now{}"}}},
	{Hermes, Tags{}, false, "<tool_call>{\"name\": \"now\", \"arguments\": {}} and more", answer{"and more", "", []string{"now{}"}}},
	{Hermes, Tags{}, false, "a\n<tool_call>\n{\"name\": \"now\", \"arguments\": {]}\n</tool_call>", answer{content: "a\n<tool_call>\n{\"name\": \"now\", \"arguments\": {]}\n</tool_call>"}},
	{Hermes, Tags{}, false, "<tool_call>\n{\"name\": \"now\", \"argum", answer{content: "<tool_call>\n{\"name\": \"now\", \"argum"}},
	{Hermes, Tags{}, false, "<tool_call>{\"arguments\": {}}</tool_call>", answer{content: "<tool_call>{\"arguments\": {}}</tool_call>"}},
	{Hermes, Tags{}, false, "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", answer{content: "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>"}},
	// Qwen's XML
	{QwenXML, Tags{}, false, "Ok\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=hot>\nTrue\n</parameter>\n<parameter=list>\n[1, \"a\"]\n</parameter>\n</function>\n</tool_call>", answer{"Ok", "", []string{`get_weather{"city": "Paris", "days": 3, "hot": true, "list": [1, "a"]}`}}},
	{QwenXML, Tags{}, false, "<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=any>\n12\n</parameter>\n<parameter=more>\nnull\n</parameter>\n</function>\n</tool_call>", answer{"", "", []string{`get_weather{"city": "12", "any": 12, "more": null}`}}},
	{QwenXML, Tags{}, false, "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>", answer{"", "", []string{"now{}"}}},
	{QwenXML, Tags{}, false, "<tool_call>\n<function=get_weather>\n<parameter=city>\nline 1\nline 2 <b>\"q\"\n\n</parameter>\n</function></tool_call> ", answer{"", "", []string{`get_weather{"city": "line 1\nline 2 <b>\"q\"\n"}`}}},
	{QwenXML, Tags{}, false, "<tool_call>\n<function=now>\noops</function></tool_call>", answer{content: "<tool_call>\n<function=now>\noops</function></tool_call>"}},
	{Hermes, Tags{}, false, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>", answer{"", "", []string{"now{}"}}},
	{Hermes, Tags{}, false, "<tool_call>\n{{\"name\": \"now\", \"arguments\": {\"a\": 1}}}\n</tool_call> ok", answer{"ok", "", []string{`now{"a": 1}`}}},
	{Hermes, Tags{}, false, "<tool_call>\n```json\n{\"name\": \"now\", \"arguments\": {}}\n```\n</tool_call>", answer{"", "", []string{"now{}"}}},
	{QwenXML, Tags{}, false, "<tool_call>\n<function=python>\n<parameter=code>\nx = '</parameter>' + y\n</parameter>\n</function>\n</tool_call>", answer{"", "", []string{`python{"code": "x = '</parameter>' + y"}`}}},
	{QwenXML, Tags{}, false, "<tool_call>\n<function=get_weather>\n<parameter=city>\nx\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", answer{"", "", []string{`get_weather{"city": "x", "days": 3}`}}},
	{QwenXML, Tags{}, false, "<tool_call>\n<function=get_weather>\n<parameter=city>\nx\n</parameter>\n</tool_call>done", answer{"done", "", []string{`get_weather{"city": "x"}`}}},
	// GLM
	{GLM, think, false, "<think>t</think>\nOk\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>", answer{"Ok", "t", []string{`get_weather{"city": "Rome", "days": 2}`}}},
	{GLM, Tags{}, false, "<tool_call>now</tool_call><tool_call>now\n</tool_call>", answer{"", "", []string{"now{}", "now{}"}}},
	{GLM, Tags{}, false, "<tool_call>no name here</tool_call>", answer{content: "<tool_call>no name here</tool_call>"}},
	// Mistral
	{Mistral, Tags{}, false, `[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "abc123def"}, {"name": "now", "arguments": {}}]`, answer{"", "", []string{`get_weather{"city": "Oslo"}`, "now{}"}}},
	{Mistral, Tags{}, false, `Hm.[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]now[CALL_ID]xyz456789[ARGS]{}`, answer{"Hm.", "", []string{`get_weather{"city": "Oslo"}`, "now{}"}}},
	{Mistral, Tags{}, false, `[TOOL_CALLS]now{}`, answer{"", "", []string{"now{}"}}},
	{Mistral, Tags{}, false, `[TOOL_CALLS]f뿕{}`, answer{"", "", []string{"f뿕{}"}}},
	{Mistral, Tags{}, false, `[TOOL_CALLS] ([1]`, answer{content: `[TOOL_CALLS] ([1]`}},
	// DeepSeek
	{DeepSeek, think, true, "t</think>Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Kyoto\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", answer{"Ok", "t", []string{`get_weather{"city": "Kyoto"}`, "now{}"}}},
	{DeepSeek, Tags{}, false, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", answer{"", "", []string{"now{}"}}},
	{DeepSeek, Tags{}, false, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>", answer{"", "", []string{"now{}"}}},
	{DSML, Tags{}, false, "Ok\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", answer{"Ok", "", []string{`get_weather{"city": "12", "days": 3}`}}},
	// Harmony
	{Harmony, Tags{}, false, "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>final<|message|>Paris.", answer{content: "Paris.", reasoning: "Let me think."}},
	{Harmony, Tags{}, false, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Bern\"}<|call|>", answer{"", "a", []string{`get_weather{"city": "Bern"}`}}},
	{Harmony, Tags{}, false, " to=functions.now<|channel|>commentary json<|message|>{}", answer{"", "", []string{"now{}"}}},
	{Harmony, Tags{}, false, "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant to=functions.now<|channel|>commentary <|constrain|> json<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>Done.", answer{"I will look.\n\nDone.", "", []string{"now{}"}}},
	{Harmony, Tags{}, false, "<|channel|>commentary to=functions.now json<|message|>{oops<|call|>", answer{content: "functions.now {oops"}},
	{Harmony, Tags{}, false, "No header at all.", answer{content: "No header at all."}},
	{Harmony, Tags{}, false, "<|channel|>final<|message|>a<|channel|>final<|message|>b", answer{content: "a\n\nb"}},
	// Gemma
	{Gemma, Tags{}, false, "```tool_code\nget_weather(city='Lima', days=2, hot=True, list=[1, 'a', None])\n```", answer{"", "", []string{`get_weather{"city": "Lima", "days": 2, "hot": true, "list": [1, "a", null]}`}}},
	{Gemma, Tags{}, false, "I look.\n```tool_code\nprint(now())\n```\n", answer{"I look.", "", []string{"now{}"}}},
	{Gemma, Tags{}, false, "[get_weather(city=\"Lima\"), now()]", answer{"", "", []string{`get_weather{"city": "Lima"}`, "now{}"}}},
	{Gemma, Tags{}, false, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Lima\"}}", answer{"", "", []string{`get_weather{"city": "Lima"}`}}},
	{Gemma, Tags{}, false, "```json\n{\"name\": \"now\", \"parameters\": {}}\n```", answer{"", "", []string{"now{}"}}},
	{Gemma, Tags{}, false, "```json\n{\"a\": 1}\n```", answer{content: "```json\n{\"a\": 1}\n```"}},
	{Gemma, Tags{}, false, "[1, 2]", answer{content: "[1, 2]"}},
	{Gemma, Tags{}, false, "[link](https://x)", answer{content: "[link](https://x)"}},
	{Gemma4, Tags{}, false, "<|tool_call>call:get_weather{city:<|\"|>a \"b\" {c}<|\"|>,days:3,hot:true,list:[<|\"|>x<|\"|>,1.5],any:{k:null}}<tool_call|><|tool_call>call:now{}<tool_call|>", answer{"", "", []string{`get_weather{"city": "a \"b\" {c}", "days": 3, "hot": true, "list": ["x", 1.5], "any": {"k": null}}`, "now{}"}}},
	{Gemma4, Tags{}, false, "<|tool_call>call:now{x}<tool_call|>", answer{content: "<|tool_call>call:now{x}<tool_call|>"}},
	{Gemma4, Tags{}, false, "<|tool_call>call:get_weather{city:'Köln',days:3}<tool_call|>", answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, "<|tool_call>call:get_weather{city:Köln,days:3}<tool_call|>", answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, `<|tool_call>call:get_weather{city:Köln<|"|>,days:3}<tool_call|>`, answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, `<|tool_call>call:get_weather{city:'Köln<|"|>,days:3}<tool_call|>`, answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, `<|tool_call>call:get_weather{city:<|"|>Köln<|"|>,days:3<tool_call|>`, answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, `<|tool_call>call:get_weather{{"city": "Köln", "days": 3,}}<tool_call|>`, answer{"", "", []string{`get_weather{"city": "Köln", "days": 3}`}}},
	{Gemma4, Tags{}, false, "<|tool_call>call:get_weather{days:three}<tool_call|>", answer{content: "<|tool_call>call:get_weather{days:three}<tool_call|>"}},
	// Phi-4, Granite
	{Phi4, Tags{}, false, `<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Cork"}}]<|/tool_call|>`, answer{"", "", []string{`get_weather{"city": "Cork"}`}}},
	{Phi4, Tags{}, false, `<|tool_call|>[{"name": "now", "arguments": {}}]`, answer{"", "", []string{"now{}"}}},
	{Phi4, Tags{}, false, `functools[{"name": "now", "arguments": {}}]`, answer{"", "", []string{"now{}"}}},
	{Phi4, Tags{}, false, `the module functools is old`, answer{content: `the module functools is old`}},
	// Command R
	{CommandR, Tags{}, false, "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Nice\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>", answer{"", "", []string{`get_weather{"city": "Nice"}`, "now{}"}}},
	{CommandR, Tags{}, false, "Action:\n```json\n[\n    {\n        \"tool_name\": \"now\",\n        \"parameters\": {}\n    }\n]```", answer{"", "", []string{"now{}"}}},
	{CommandR, Tags{}, false, "Action: none", answer{content: "Action: none"}},
	// Llama 3
	{Llama3, Tags{}, false, `{"name": "get_weather", "parameters": {"city": "Ulm"}}`, answer{"", "", []string{`get_weather{"city": "Ulm"}`}}},
	{Llama3, Tags{}, false, `<|python_tag|>{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}`, answer{"", "", []string{"now{}", "now{}"}}},
	{Llama3, Tags{}, false, `<|python_tag|>get_weather.call(city="Ulm")`, answer{"", "", []string{`get_weather{"city": "Ulm"}`}}},
	{Llama3, Tags{}, false, "<|python_tag|>import math\nprint(math.pi)", answer{"", "", []string{`python{"code": "import math\nprint(math.pi)"}`}}},
	{Llama3, Tags{}, false, `{"name": "unknown_tool", "parameters": {}}`, answer{content: `{"name": "unknown_tool", "parameters": {}}`}},
	{Llama3, Tags{}, false, `{"answer": 42}`, answer{content: `{"answer": 42}`}},
	{Llama3, Tags{}, false, `{"name": "Ann", "age": 3}`, answer{content: `{"name": "Ann", "age": 3}`}},
	{Llama3, Tags{}, false, `<function=get_weather>{"city": "Ulm"}</function>`, answer{"", "", []string{`get_weather{"city": "Ulm"}`}}},
	// generic
	{Generic, Tags{}, false, `{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Bonn"}}, {"name": "now", "arguments": {}}]}`, answer{"", "", []string{`get_weather{"city": "Bonn"}`, "now{}"}}},
	{Generic, Tags{}, false, "```json\n[{\"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": {}}}]\n```", answer{"", "", []string{"now{}"}}},
	{Generic, think, false, "<think>x</think>\n{\"name\": \"now\", \"arguments\": {}}", answer{"", "x", []string{"now{}"}}},
	{Generic, Tags{}, false, `{"tool_calls": [{"name": "get_weather", "arguments": {"city": "B}]"}}, {"name": "now", "argu`, answer{"", "", []string{`get_weather{"city": "B}]"}`}}},
	{Generic, Tags{}, false, `[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "B`, answer{"", "", []string{"now{}"}}},
	{Generic, Tags{}, false, `{"tool_calls": [{"name": "get_weather", "arguments": {"city": "B`, answer{content: `{"tool_calls": [{"name": "get_weather", "arguments": {"city": "B`}},
	{Generic, Tags{}, false, `[{"name": "Ann", "age": 3}, {"name": "Bo`, answer{content: `[{"name": "Ann", "age": 3}, {"name": "Bo`}},
	{Mistral, Tags{}, false, `Ok[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "get_w`, answer{"Ok", "", []string{"now{}"}}},
	{Phi4, Tags{}, false, `<|tool_call|>[{"name": "now", "arguments": {}}, {"na`, answer{"", "", []string{"now{}"}}},
	{Generic, Tags{}, false, `{"tool_calls": []}`, answer{content: `{"tool_calls": []}`}},
	// others
	{Kimi, Tags{}, false, `Ok<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Bari"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`, answer{"Ok", "", []string{`get_weather{"city": "Bari"}`, "now{}"}}},
	{MiniMax, Tags{}, false, "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bari</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>", answer{"", "", []string{`get_weather{"city": "Bari", "days": 3}`, "now{}"}}},
	{LFM2, Tags{}, false, `Ok<|tool_call_start|>[get_weather(city='Par"is', days=-1.5e3), now()]<|tool_call_end|>Done`, answer{"OkDone", "", []string{`get_weather{"city": "Par\"is", "days": -1.5e3}`, "now{}"}}},
	{Apertus, Tags{}, false, `<|tools_prefix|>[{"get_weather": {"city": "Bari"}}, {"now": {}}]<|tools_suffix|>`, answer{"", "", []string{`get_weather{"city": "Bari"}`, "now{}"}}},
	{TagList, Tags{}, false, `<TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>`, answer{"", "", []string{"now{}"}}},
	{TagList, Tags{}, false, "<tool_calls>\n{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\"}\n</tool_calls>", answer{"", "", []string{"now{}", "now{}"}}},
	{Functools, Tags{}, false, ` functools[{"name": "now", "arguments": {}}]`, answer{"", "", []string{"now{}"}}},
	{GigaChat3, Tags{}, false, "Ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bari\"}}<|message_sep|>", answer{"Ok", "", []string{`get_weather{"city": "Bari"}`}}},
	{GigaChat31, Tags{}, false, `Ok<|function_call|>{"name": "get_weather", "arguments": {"city": "Bari"}}<|message_sep|>`, answer{"Ok", "", []string{`get_weather{"city": "Bari"}`}}},
	{MiniCPM5, Tags{}, false, `Ok <function name="get_weather"><param name="city"><![CDATA[a<b>]]></param><param name="days">3</param></function>`, answer{"Ok", "", []string{`get_weather{"city": "a<b>", "days": 3}`}}},
	{MiniCPM5, Tags{}, false, "<function name=\"now\"></function>\n<function name=\"now\"></function>", answer{"", "", []string{"now{}", "now{}"}}},
	{Functionary, Tags{}, false, `Sure.<function=now>{}</function><function=now>{}</function>`, answer{"Sure.", "", []string{"now{}", "now{}"}}},
}

func TestAnswers(t *testing.T) {
	tools := testTools(t)
	for _, c := range answers {
		o := ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open, Tools: tools}
		if got := parse(o, c.text); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %q\ngot  %q\nwant %q", c.kind, c.text, got, c.want)
		}
	}
}

// TestEveryKindHasCases keeps the table complete.
func TestEveryKindHasCases(t *testing.T) {
	seen := map[ParserKind]bool{}
	for _, c := range answers {
		seen[c.kind] = true
	}
	for _, k := range ParserKinds() {
		if !seen[k] {
			t.Errorf("no answer of kind %s", k)
		}
	}
}

// whole joins deltas to a message and checks each of them: if the answer is valid
// UTF-8, so is every delta.
func whole(t *testing.T, text string, deltas []Delta) (a answer, ids []string) {
	t.Helper()
	valid := utf8.ValidString(text)
	var args []string
	for _, d := range deltas {
		if valid && !utf8.ValidString(d.Text) {
			t.Fatalf("half a code point: %q", d.Text)
		}
		switch d.Kind {
		case Content:
			a.content += d.Text
		case Reasoning:
			a.reasoning += d.Text
		case CallStart:
			if d.Index != len(args) || d.Name == "" || len(d.ID) < 9 {
				t.Fatalf("call %+v follows %d others", d, len(args))
			}
			a.calls, args, ids = append(a.calls, d.Name), append(args, ""), append(ids, d.ID)
		case CallArgs:
			args[d.Index] += d.Text
		}
	}
	for i, s := range args {
		if !json.Valid([]byte(s)) || !strings.HasPrefix(s, "{") {
			t.Fatalf("arguments %q are no JSON object", s)
		}
		a.calls[i] += s
	}
	return a, ids
}

// cutUp pushes a text in random chunks, which may split code points.
func cutUp(t *testing.T, rnd *rand.Rand, o ParserOptions, text string) (answer, []string) {
	t.Helper()
	p := NewParser(o)
	var out []Delta
	for rest := text; rest != ""; {
		n := min(1+rnd.IntN(1+rnd.IntN(12)), len(rest))
		out = append(out, p.Push(rest[:n])...)
		rest = rest[n:]
	}
	return whole(t, text, append(out, p.Finish()...))
}

// TestChunks parses every answer and random combinations of answers, whole and in
// chunks. The results must be equal.
func TestChunks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	tools := testTools(t)
	check := func(o ParserOptions, text string) {
		t.Helper()
		p := NewParser(o)
		want, wantIDs := whole(t, text, append(p.Push(text), p.Finish()...))
		for range 4 {
			got, ids := cutUp(t, rnd, o, text)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(ids, wantIDs) {
				t.Fatalf("%+v %q\nin pieces %q %q\nwhole     %q %q", o.Kind, text, got, ids, want, wantIDs)
			}
		}
	}
	for _, c := range answers {
		check(ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open, Tools: tools, Seed: "s"}, c.text)
	}
	for range 3000 {
		c := answers[rnd.IntN(len(answers))]
		text := ""
		for range 1 + rnd.IntN(4) {
			part := answers[rnd.IntN(len(answers))].text
			if rnd.IntN(2) == 0 {
				part = c.text
			}
			lo := 0
			if len(part) > 0 && rnd.IntN(3) == 0 {
				lo = rnd.IntN(len(part))
			}
			hi := len(part)
			if hi > lo && rnd.IntN(3) == 0 {
				hi = lo + rnd.IntN(hi-lo)
			}
			text += part[lo:hi] + []string{"", " ", "\n", "é😀", "x"}[rnd.IntN(5)]
		}
		check(ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open, Tools: tools}, strings.ToValidUTF8(text, ""))
	}
}

// TestNothingIsLost checks that text without calls and reasoning is returned
// unchanged in every syntax, even if it contains truncated markers.
func TestNothingIsLost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	tools := testTools(t)
	parts := []string{"a", " ", "\n", "é", "{", "}", "[", "]", "(", ")", `"`, "name", ":", "1", "```", "Action", "call", "tool", "function", "=", "/"}
	for range 4000 {
		text := "."
		for range rnd.IntN(20) {
			text += parts[rnd.IntN(len(parts))]
		}
		kinds := ParserKinds()
		kind := kinds[rnd.IntN(len(kinds))]
		got, _ := cutUp(t, rnd, ParserOptions{Kind: kind, Tools: tools}, text)
		if got.content != text || got.reasoning != "" || got.calls != nil {
			t.Fatalf("%s: %q became %q", kind, text, got)
		}
	}
}

// TestNoToolsNoCalls checks that calls are plain text if no tools are offered.
func TestNoToolsNoCalls(t *testing.T) {
	for _, c := range answers {
		if got := parse(ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open}, c.text); got.calls != nil {
			t.Errorf("%s %q: calls %q without tools", c.kind, c.text, got.calls)
		}
	}
}

// TestStreams checks that text is emitted as soon as it can be decided.
func TestStreams(t *testing.T) {
	p := NewParser(ParserOptions{Kind: Hermes, Tags: think, Tools: testTools(t)})
	for _, c := range []struct{ in, want string }{
		{"Hel", "Hel"}, {"lo ", "lo"}, {"wor", " wor"}, {"ld <", "ld"}, {"b> <th", " <b>"}, {"in", ""}, {"g", " <thing"}, {"\xc3", ""}, {"\xa9", "é"},
	} {
		got := ""
		for _, d := range p.Push(c.in) {
			got += d.Text
		}
		if got != c.want {
			t.Errorf("after %q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestIDs(t *testing.T) {
	_, _, calls := Parse(ParserOptions{Kind: Hermes, Tools: testTools(t), Seed: "1"}, strings.Repeat(`<tool_call>{"name": "now"}</tool_call>`, 50))
	seen := map[string]bool{}
	for _, c := range calls {
		ok := len(c.ID) == 9 && strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
		if !ok || seen[c.ID] {
			t.Errorf("id %q", c.ID)
		}
		seen[c.ID] = true
	}
	_, _, again := Parse(ParserOptions{Kind: Hermes, Tools: testTools(t), Seed: "2"}, `<tool_call>{"name": "now"}</tool_call>`)
	if len(calls) != 50 || again[0].ID == calls[0].ID {
		t.Errorf("%d calls; another seed gives the id %q again", len(calls), again[0].ID)
	}
}

// TestLongCall pushes a call of a megabyte in small chunks. The work must stay
// linear in its length.
func TestLongCall(t *testing.T) {
	body := strings.Repeat("word 1234 ", 100_000)
	for _, text := range []string{
		`<tool_call>{"name": "python", "arguments": {"code": "` + body + `"}}</tool_call>`,
		`<tool_call>{"name": "python", "arguments": {"code": "` + strings.Repeat("f(x); a[i] > {b}; ", 60_000) + `"}}</tool_call>`,
		"<tool_call><function=python><parameter=code>" + body + "</parameter></function></tool_call>",
	} {
		p := NewParser(ParserOptions{Kind: QwenXML, Tools: testTools(t)})
		var out []Delta
		for text != "" {
			n := min(4, len(text))
			out = append(out, p.Push(text[:n])...)
			text = text[n:]
		}
		if got, _ := whole(t, body, append(out, p.Finish()...)); len(got.calls) != 1 || len(got.calls[0]) < len(body) {
			t.Errorf("calls %.80q", got.calls)
		}
	}
}

// TestHostileAnswers repeats the start of a call without ever closing it. In every
// syntax, the parser must end and its work must stay linear in the length.
func TestHostileAnswers(t *testing.T) {
	tools := testTools(t)
	units := []string{
		"<", " ", "[", "(", "<think>", "<tool_call>", "<tool_call>{", "<function=a>", "<|channel|>", "<|start|>", "functools[", "[TOOL_CALLS]f[ARGS]{",
		"<|tool_call>call:f{a:", "```json\n{", "[f(a=", "<|tool_call_start|>[f(a=[", "<｜tool▁calls▁begin｜>", "<|tool_call_begin|>", "<arg_key>",
		`<minimax:tool_call><invoke name="a">`, "Action:\n```json\n[", "<|python_tag|>f(", `<｜DSML｜tool_calls><｜DSML｜invoke name="f">`, `{"name":`,
	}
	for _, kind := range ParserKinds() {
		for _, unit := range units {
			o := ParserOptions{Kind: kind, Tags: think, Tools: tools}
			text := strings.Repeat(unit, 20_000/len(unit))
			took := spent.Time(t, func() {
				p := NewParser(o)
				for i := 0; i < len(text); i += 5 {
					p.Push(text[i:min(i+5, len(text))])
				}
				p.Finish()
				Parse(o, text)
			})
			if took > 5*time.Second {
				t.Errorf("%s: %q 20 kB long took %v", kind, unit, took)
			}
		}
	}
}

func FuzzParser(f *testing.F) {
	for _, c := range answers {
		for i, k := range ParserKinds() {
			if k == c.kind {
				f.Add(uint8(i), c.open, c.text, uint64(i))
			}
		}
	}
	tools := testTools(f)
	f.Fuzz(func(t *testing.T, kind uint8, open bool, text string, seed uint64) {
		kinds := ParserKinds()
		o := ParserOptions{Kind: kinds[int(kind)%len(kinds)], Tags: think, Open: open, Tools: tools}
		p := NewParser(o)
		want, _ := whole(t, text, append(p.Push(text), p.Finish()...))
		if got, _ := cutUp(t, rand.New(rand.NewPCG(seed, 1)), o, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s %q\nin pieces %q\nwhole     %q", o.Kind, text, got, want)
		}
	})
}

func ExampleParser() {
	tools := jinja.NewList(dict("type", "function", "function", dict("name", "now")))
	p := NewParser(ParserOptions{Kind: Hermes, Tags: Tags{"<think>", "</think>"}, Tools: tools})
	for _, text := range []string{"<thi", "nk>Time?</think>\nI look", ". <tool_call>{\"name\": \"now\"", "}</tool_call>"} {
		for _, d := range p.Push(text) {
			fmt.Printf("%d %q %q\n", d.Kind, d.Text, d.Name)
		}
	}
	// Output:
	// 1 "Time?" ""
	// 0 "I look" ""
	// 0 "." ""
	// 2 "" "now"
	// 3 "{}" ""
}

// TestThinking checks after each chunk whether the parser is inside reasoning.
func TestThinking(t *testing.T) {
	for _, c := range []struct {
		kind   ParserKind
		tags   Tags
		open   bool
		pieces []string
		want   string // one digit per chunk
	}{
		{pieces: []string{"a", "<think>", "b"}, want: "000"},
		{tags: think, pieces: []string{"<think>", "b", "</think>", "c"}, want: "1100"},
		{tags: think, open: true, pieces: []string{"b", "</thi", "nk>", "c"}, want: "1100"},
		{kind: Harmony, pieces: []string{"<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>assistant", "<|channel|>final<|message|>", "Yes"}, want: "00110000"},
	} {
		p := NewParser(ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open})
		got := ""
		for _, s := range c.pieces {
			p.Push(s)
			if p.Thinking() {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.pieces, got, c.want)
		}
	}
}
