package chat

import (
	"slices"
	"strings"
)

// defaults holds templates for models without a template, by family. They write
// only turns that every model of the family was trained on.
var defaults = map[string]string{
	"ChatML": `{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}`,

	"Gemma": `{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = ns.system + message.content|trim + '\n\n' -%}
{%- else -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' -}}
{%- if message.role == 'user' -%}
{{- ns.system -}}
{%- set ns.system = '' -%}
{%- endif -%}
{{- message.content|trim + '<end_of_turn>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<start_of_turn>model\n' -}}
{%- endif -%}`,

	"Llama 3": `{{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content|trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%}`,

	"Mistral": `{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = ns.system + message.content + '\n\n' -%}
{%- elif message.role == 'assistant' -%}
{{- ' ' + message.content|trim + eos_token -}}
{%- else -%}
{{- '[INST] ' + ns.system + message.content + ' [/INST]' -}}
{%- set ns.system = '' -%}
{%- endif -%}
{%- endfor -%}`,

	"Phi 3": `{%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>\n' -}}
{%- endif -%}`,

	"Command R": `{{- bos_token -}}
{%- set tokens = {'system': '<|SYSTEM_TOKEN|>', 'user': '<|USER_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'} -%}
{%- for message in messages -%}
{{- '<|START_OF_TURN_TOKEN|>' + tokens.get(message.role, '<|USER_TOKEN|>') + message.content + '<|END_OF_TURN_TOKEN|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}
{%- endif -%}`,

	"DeepSeek": `{{- bos_token -}}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content -}}
{%- elif message.role == 'assistant' -%}
{{- '<｜Assistant｜>' + message.content + '<｜end▁of▁sentence｜>' -}}
{%- else -%}
{{- '<｜User｜>' + message.content -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<｜Assistant｜>' -}}
{%- endif -%}`,

	"GLM 4": `{{- '[gMASK]<sop>' -}}
{%- for message in messages -%}
{{- '<|' + message.role + '|>\n' + message.content -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>\n' -}}
{%- endif -%}`,

	"Granite": `{%- for message in messages -%}
{{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_of_role|>assistant<|end_of_role|>' -}}
{%- endif -%}`,

	"gpt-oss": `{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' -}}
{%- else -%}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start|>assistant' -}}
{%- endif -%}`,
}

// builtinName returns the name of a family's format as users write it, such as
// llama3.
func builtinName(family string) string {
	return strings.ToLower(strings.ReplaceAll(family, " ", ""))
}

// Builtin returns the template of a family by its name.
func Builtin(name string) (source string, ok bool) {
	for family, source := range defaults {
		if builtinName(family) == builtinName(strings.ReplaceAll(name, "-", "")) || builtinName(family) == strings.ToLower(name) {
			return source, true
		}
	}
	return "", false
}

// Builtins returns the names that Builtin accepts.
func Builtins() []string {
	var out []string
	for family := range defaults {
		out = append(out, builtinName(family))
	}
	slices.Sort(out)
	return out
}

// builtinOf returns the family whose built-in template equals source, or "" if
// there is no such family.
func builtinOf(source string) string {
	for family, text := range defaults {
		if text == source {
			return family
		}
	}
	return ""
}

// turnEnds holds the texts that the default templates write after an assistant
// turn. Families that are not listed write the end-of-sequence token.
var turnEnds = map[string]string{
	"ChatML": "<|im_end|>", "Gemma": "<end_of_turn>", "Llama 3": "<|eot_id|>", "Phi 3": "<|end|>",
	"Command R": "<|END_OF_TURN_TOKEN|>", "GLM 4": "<|user|>", "Granite": "<|end_of_text|>", "gpt-oss": "<|end|>",
}

// families lists, in search order, the token that marks a turn in each format.
var families = []struct{ name, token string }{
	{"ChatML", "<|im_start|>"},
	{"Gemma", "<start_of_turn>"},
	{"Llama 3", "<|start_header_id|>"},
	{"gpt-oss", "<|channel|>"},
	{"Command R", "<|START_OF_TURN_TOKEN|>"},
	{"DeepSeek", "<｜User｜>"},
	{"GLM 4", "[gMASK]"},
	{"Granite", "<|start_of_role|>"},
	{"Phi 3", "<|end|>"},
	{"Mistral", "[INST]"},
}

// familyOf picks the format of a model without a template. A base model gets
// ChatML, because it was not trained on a format and ChatML is readable as
// plain text.
func familyOf(o Options) string {
	name := strings.ToLower(o.Name)
	tuned := strings.Contains(name, "instruct") || strings.Contains(name, "chat") ||
		slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_.", r) }),
			func(w string) bool { return w == "it" || w == "sft" || w == "dpo" })
	if !tuned {
		return "ChatML"
	}
	for _, f := range families {
		if o.HasToken != nil && o.HasToken(f.token) {
			return f.name
		}
	}
	if defaults[o.Family] != "" {
		return o.Family
	}
	return "ChatML"
}
