package api

import "slices"

// Control tokens of model families.
var (
	chatML  = []string{"<|im_start|>", "<|im_end|>"}
	channel = []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"}
	gemma4  = []string{"<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", `<|"|>`, "<|channel>", "<channel|>", "<|think|>"}
	kimi    = []string{
		"<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
		"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
	}
)

const (
	hermesCall = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	qwenCall   = "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"
	form7      = `{"a": 7}`
)

var offered = asked{tools: true}

func scenes() []scene {
	return slices.Concat(formScenes(), thinkingScenes(), slipScenes(), turnScenes(), templateScenes())
}

// formScenes test forms of the answer after reasoning, together with tools, and
// with keywords that grammars do not support.
func formScenes() []scene {
	seven := said{text: form7, thinking: "Let me see."}
	behind := []act{
		{what: "a schema behind thinking", asked: asked{form: personSchema}, text: "Let me see.</think>\n\n" + form7, want: seven},
		{what: "any JSON behind thinking", asked: asked{any: true}, text: "Let me see.</think>\n\n" + form7, want: seven},
		{what: "a grammar behind thinking", asked: asked{grammar: `root ::= "yes" | "no"`}, text: "Let me see.</think>\n\nyes", want: said{text: "yes", thinking: "Let me see."}},
		{what: "other text behind thinking", asked: asked{form: personSchema}, text: "Let me see.</think>\n\nSeven.", refused: "token outside the grammar"},
	}
	beside := []act{
		{what: "a form beside tools", asked: asked{form: personSchema, tools: true}, text: "Let me see.</think>\n\n" + form7, want: seven},
		{what: "a call beside a form", asked: asked{form: personSchema, tools: true}, text: "Let me see.</think>\n\n" + qwenCall, want: calledWeather("Let me see.", "")},
		{what: "neither form nor call", asked: asked{form: personSchema, tools: true}, text: "Let me see.</think>\n\nSeven.", refused: "token outside the grammar"},
		{what: "a demanded call beside a form", asked: asked{form: personSchema, tools: true, forced: true}, text: "Let me see.</think>\n\n" + qwenCall, want: calledWeather("Let me see.", "")},
		{what: "a form where a call is demanded", asked: asked{form: personSchema, tools: true, forced: true}, text: "Let me see.</think>\n\n" + form7, refused: "token outside the grammar"},
	}
	unique := []act{
		{what: "a loose schema", asked: asked{form: never}, text: "Hm.</think>\n\n" + `{"a": [1, 1]}`, want: said{text: `{"a": [1, 1]}`, thinking: "Hm."}, notice: "may not follow #/properties/a/uniqueItems"},
		{what: "a loose schema that holds", asked: asked{form: sometimes}, text: "Hm.</think>\n\n" + `{"a": 3}`, want: said{text: `{"a": 3}`, thinking: "Hm."}, notice: "may not follow #/properties/a/not"},
	}
	switched := slices.Clone(behind)
	for i := range switched { // the template opens reasoning if the request asks for it
		switched[i].asked.effort = "high"
	}
	return []scene{
		{1, "Qwen3.5-4B", chatML, behind},
		{1, "Qwen-QwQ-32B", chatML, switched},
		{2, "Qwen3.5-4B", chatML, beside},
		{10, "Qwen3.5-4B", chatML, unique},
	}
}

// thinkingScenes test calls inside reasoning, stray tags, efforts and budgets.
func thinkingScenes() []scene {
	kimiCall := `<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|><|tool_calls_section_end|>`
	mention := "I could write " + qwenCall + " and so on."
	rome := calledWeather("Let me look.", "")
	off := asked{think: truth(false)}
	high := asked{effort: "high"}
	short := asked{budget: number(4)}
	return []scene{
		{3, "Qwen3.5-4B", chatML, []act{
			{what: "a call before the end of thinking", asked: offered, text: "Let me look.\n" + qwenCall, want: rome},
			{what: "a call just before the end of thinking", asked: offered, text: "Let me look.\n" + qwenCall + "\n</think>", want: rome},
			{what: "a call that is talked about", asked: offered, text: mention + "</think>\n\nAnswer", want: said{text: "Answer", thinking: mention}},
		}},
		{3, "Kimi-K2-Thinking", kimi, []act{
			{what: "a control token inside thinking", asked: offered, text: "<think>Let me look." + kimiCall, want: rome},
			{what: "a control token, then the end of thinking", asked: offered, text: "<think>Let me look." + kimiCall + "</think>", want: rome},
		}},
		{4, "Qwen3.5-4B", chatML, []act{
			{what: "a second opening tag", text: "<think>\nWhy</think>\n\nAnswer", want: said{text: "Answer", thinking: "Why"}},
			{what: "an empty block", text: "<think>\n\n</think>\n\nAnswer", want: said{text: "Answer"}},
			{what: "a closing tag with thinking off", asked: off, text: "</think>\n\nHello", want: said{text: "Hello"}},
		}},
		{4, "openai-gpt-oss-120b", channel, []act{
			{what: "blank analysis", text: "<|channel|>analysis<|message|>\n\n<|end|><|start|>assistant<|channel|>final<|message|>Answer", want: said{text: "Answer"}},
		}},
		{5, "ibm-granite-granite-3.3-2B-Instruct", []string{"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"}, []act{
			{what: "an effort", asked: high, text: "Hello", want: said{text: "Hello"}, prompt: []string{"<think></think>"}},
			{what: "no effort", text: "Hello", want: said{text: "Hello"}, absent: []string{"<think></think>"}},
		}},
		{5, "deepseek-ai-DeepSeek-V3.1", nil, []act{
			{what: "an effort", asked: high, text: "Hm.</think>Hello", want: said{text: "Hello", thinking: "Hm."}, absent: []string{"<think></think>"}},
			{what: "no effort", text: "Hello", want: said{text: "Hello"}, prompt: []string{"<think></think>"}},
		}},
		{5, "NVIDIA-Nemotron-Nano-v2", nil, []act{
			{what: "no switch", asked: off, text: "Hello", want: said{text: "Hello"}, notice: "no switch for thinking"},
		}},
		{5, "MiniMax-M2", nil, []act{
			{what: "no switch", asked: off, text: "Hello", want: said{text: "Hello"}, notice: "no switch for thinking"},
		}},
		{6, "Qwen3.5-4B", chatML, []act{
			{what: "a budget", asked: short, text: "Wellthe answer is", want: said{text: "the answer is", thinking: "Well"}},
			{what: "a budget that is not used up", asked: asked{budget: number(400)}, text: "Well</think>\n\nHello", want: said{text: "Hello", thinking: "Well"}},
			{what: "no thinking at all", asked: asked{budget: number(0)}, text: "Hello", want: said{text: "Hello"}},
			{what: "a budget and a form", asked: asked{budget: number(4), form: personSchema}, text: "Well" + form7, want: said{text: form7, thinking: "Well"}},
		}},
	}
}

// slipScenes test malformed calls, and texts that look like calls.
func slipScenes() []scene {
	rome := calledWeather("", "")
	off := asked{tools: true, think: truth(false)}
	calls := func(a asked, texts ...string) (list []act) {
		for _, s := range texts {
			list = append(list, act{what: "slip " + s, asked: a, text: s, want: rome})
		}
		return list
	}
	texts := func(a asked, texts ...string) (list []act) {
		for _, s := range texts {
			list = append(list, act{what: "text " + s, asked: a, text: s, want: said{text: s}})
		}
		return list
	}
	llama3 := []string{"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"}
	return []scene{
		{7, "google-gemma-4-31B-it", gemma4, slices.Concat(calls(off,
			`<|tool_call>call:weather{city:'Rome'}<tool_call|>`, `<|tool_call>call:weather{city:Rome}<tool_call|>`, `<|tool_call>call:weather{city:<|"|>Rome<|"|><tool_call|>`,
			`<|tool_call>call:weather(city=Rome)<tool_call|>`, `<|tool_call>call:weather{{"city": "Rome",}}<tool_call|>`,
		), texts(off,
			`<|tool_call>call:climate{city:'Rome'}<tool_call|>`, `<|tool_call>call:weather(city=Paris)<tool_call|>`,
		))},
		{7, "Qwen-Qwen2.5-7B-Instruct", chatML, slices.Concat(calls(offered,
			`<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}}</tool_call>`, `<tool_call>{{"name": "weather", "arguments": {"city": "Rome"}}}</tool_call>`,
			"<tool_call>\n```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n```\n</tool_call>", hermesCall[:len(hermesCall)-4],
		), texts(offered, `<tool_call>{"name": "climate", "arguments": {"city": "Rome"}}}</tool_call>`))},
		{7, "Qwen3-Coder", chatML, slices.Concat(calls(offered,
			"<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</function>\n</tool_call>", "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</tool_call>", qwenCall[:len(qwenCall)-4],
		), texts(offered, "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</function>\n</tool_call>"))},
		{7, "meta-llama-Llama-3.1-8B-Instruct", llama3, slices.Concat([]act{
			{what: "text ahead", asked: offered, text: `I look it up. {"name": "weather", "parameters": {"city": "Rome"}}`, want: calledWeather("", "I look it up.")},
		}, calls(offered, "```json\n{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}\n```"), texts(offered, `He is {"name": "Ann", "parameters": {"city": "Rome"}}`))},
		{7, "LFM2-8B-A1B", append([]string{"<|tool_call_start|>", "<|tool_call_end|>"}, chatML...), calls(offered,
			`<|tool_call_start|>[{"name": "weather", "arguments": {"city": "Rome"}}]<|tool_call_end|>`, `<|tool_call_start|>[weather(city="Rome")]<|tool_call_end|>`,
		)},
		{7, "openai-gpt-oss-120b", channel, calls(offered,
			`<|channel|>commentary to= functions.weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>`, `<|channel|>commentary to=functions. weather json<|message|>{"city": "Rome"}<|call|>`,
		)},
		{7, "GigaChat3-10B-A1.8B", []string{"<|message_sep|>", "<|role_sep|>"}, calls(offered, "function call<|role_sep|>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}<|message_sep|>")},
		{7, "GigaChat3.1-10B-A1.8B", []string{"<|message_sep|>", "<|role_sep|>", "<|function_call|>"}, calls(offered, `<|function_call|>{"name": "weather", "arguments": {"city": "Rome"}}<|message_sep|>`)},
		{7, "openbmb-MiniCPM5-1B", chatML, calls(off, `<function name="weather"><param name="city">Rome</param></function>`)},
	}
}

// turnScenes test conversations that template authors did not expect.
func turnScenes() []scene {
	twice := asked{tools: true, turns: []turn{{"system", "Xq7first"}, {"system", "Xq7second"}, {"user", "Xq7user"}}}
	late := asked{tools: true, turns: []turn{{"system", "Xq7first"}, {"user", "Xq7user"}, {"system", "Xq7second"}}}
	lone := asked{turns: []turn{{"system", "Xq7first"}}}
	hello := said{text: "Hello"}
	keepsLast := []act{
		{what: "two system messages with tools", asked: twice, text: "Hello", want: hello, prompt: []string{"Xq7first", "Xq7second", "Xq7user", "weather"}},
		{what: "a late system message with tools", asked: late, text: "Hello", want: hello, prompt: []string{"Xq7first", "Xq7second", "Xq7user", "weather"}},
	}
	r1 := slices.Clone(keepsLast)
	for i := range r1 { // its prompt opens the reasoning
		r1[i].text = "</think>Hello"
	}
	alone := []act{{what: "a system message alone", asked: lone, text: "Hello", want: hello, prompt: []string{"Xq7first"}}}
	return []scene{
		{8, "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", nil, r1},
		{8, "llama-cpp-rwkv-world", nil, keepsLast},
		{8, "mistralai-Mistral-Nemo-Instruct-2407", []string{"[INST]", "[/INST]"}, alone},
		{8, "Mistral-Small-3.2-24B-Instruct-2506", []string{"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, alone},
		{8, "Mistral", nil, alone},
		{8, "Gemma", []string{"<start_of_turn>", "<end_of_turn>"}, alone},
		{8, "mistralai-Ministral-3-14B-Reasoning-2512", []string{"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]"}, []act{
			{what: "an empty answer", asked: asked{turns: []turn{{"user", "Xq7first"}, {"assistant", ""}, {"user", "Xq7second"}}}, text: "Hello", want: hello, prompt: []string{"Xq7first", "Xq7second"}},
		}},
		{8, "google-gemma-4-31B-it", gemma4, []act{
			{what: "a result without a call", asked: asked{turns: []turn{{"user", "Xq7user"}, {"result", "Xq7result"}, {"user", "Xq7more"}}}, text: "Hello", want: hello, prompt: []string{"Xq7user", "Xq7result", "Xq7more"}},
		}},
	}
}

// templateScenes test chat templates in requests.
func templateScenes() []scene {
	const own = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[Xq7own]"
	return []scene{{9, "Qwen3.5-4B", chatML, []act{
		{what: "a template in the request", asked: asked{template: own}, text: "Hello", want: said{text: "Hello"}, prompt: []string{"[user]" + question + "[Xq7own]"}, absent: []string{"<|im_start|>"}},
		{what: "a template in Go's language", asked: asked{template: "{{ .Prompt }}"}, text: "Hello", refused: "Go templates are not supported"},
		{what: "a template that is not whole", asked: asked{template: "{{ messages "}, text: "Hello", refused: "template syntax"},
	}}}
}
