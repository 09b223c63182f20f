package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const question = "Name three animals that live in the sea."

// texts sends the same request in every dialect, whole and streamed.
func texts(t *testing.T, v *live, most int) map[string]string {
	t.Helper()
	out := map[string]string{}
	join := func(list []event, path ...any) string {
		var b strings.Builder
		for _, e := range list {
			if e.data == "[DONE]" {
				continue
			}
			if s, ok := at(e.json(t), path...).(string); ok {
				b.WriteString(s)
			}
		}
		return b.String()
	}
	text := func(x any) string {
		s, _ := x.(string)
		return s
	}
	chat := object{"messages": user(question), "max_tokens": most}
	with := func(o object, pairs ...any) object {
		c := object{}
		for k, x := range o {
			c[k] = x
		}
		for i := 0; i < len(pairs); i += 2 {
			c[pairs[i].(string)] = pairs[i+1]
		}
		return c
	}
	prompt := text(v.post("/apply-template", chat)["prompt"])
	out["chat"] = text(at(v.post("/v1/chat/completions", chat), "choices", 0, "message", "content"))
	out["chat, streamed"] = join(v.events("/v1/chat/completions", with(chat, "stream", true)), "choices", 0, "delta", "content")
	completion := object{"prompt": prompt, "max_tokens": most}
	out["completion"] = text(at(v.post("/v1/completions", completion), "choices", 0, "text"))
	out["completion, streamed"] = join(v.events("/v1/completions", with(completion, "stream", true)), "choices", 0, "text")
	response := object{"input": question, "max_output_tokens": most}
	out["response"] = text(at(v.post("/v1/responses", response), "output", 0, "content", 0, "text"))
	out["response, streamed"] = join(v.events("/v1/responses", with(response, "stream", true)), "delta")
	message := object{"messages": user(question), "max_tokens": most}
	out["message"] = text(at(v.post("/v1/messages", message), "content", 0, "text"))
	out["message, streamed"] = join(v.events("/v1/messages", with(message, "stream", true)), "delta", "text")
	lines := object{"model": "any", "messages": user(question), "options": object{"num_predict": most}}
	out["ollama chat"] = text(at(v.post("/api/chat", with(lines, "stream", false)), "message", "content"))
	out["ollama chat, streamed"] = join(v.events("/api/chat", lines), "message", "content")
	generate := object{"model": "any", "prompt": question, "options": object{"num_predict": most}}
	out["ollama generate"] = text(v.post("/api/generate", with(generate, "stream", false))["response"])
	out["ollama generate, streamed"] = join(v.events("/api/generate", generate), "response")
	llama := object{"prompt": prompt, "n_predict": most}
	out["llama completion"] = text(v.post("/completion", llama)["content"])
	out["llama completion, streamed"] = join(v.events("/completion", with(llama, "stream", true)), "content")
	return out
}

// One question has the same answer in every dialect, whole and streamed.
func TestDialectsAgree(t *testing.T) {
	v := shared(t)
	all := texts(t, v, 12)
	want := all["chat"]
	if len(want) < 10 {
		t.Fatalf("the answer is %q", want)
	}
	for name, got := range all {
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The order of a chat stream is role, content, finish reason, usage only if
// requested, and the end marker.
func TestChatStream(t *testing.T) {
	v := shared(t)
	for _, asked := range []bool{false, true} {
		body := object{"messages": user(question), "max_tokens": 6, "stream": true}
		if asked {
			body["stream_options"] = object{"include_usage": true}
		}
		list := v.events("/v1/chat/completions", body)
		n := len(list)
		if n < 4 || list[n-1].data != "[DONE]" {
			t.Fatalf("usage %v: the stream ends with %v", asked, list[max(0, n-1):])
		}
		var chunks []map[string]any
		for _, e := range list[:n-1] {
			chunks = append(chunks, e.json(t))
		}
		if role := at(chunks[0], "choices", 0, "delta", "role"); role != "assistant" {
			t.Errorf("usage %v: the first chunk has the role %v", asked, role)
		}
		if asked {
			last := chunks[len(chunks)-1]
			choices, ok := last["choices"].([]any)
			if !ok || len(choices) != 0 || at(last, "usage", "completion_tokens") != 6.0 {
				t.Errorf("the last chunk is %v", last)
			}
			chunks = chunks[:len(chunks)-1]
		}
		for i, c := range chunks {
			finish := at(c, "choices", 0, "finish_reason")
			if last := i == len(chunks)-1; last && finish != "length" || !last && finish != nil {
				t.Errorf("usage %v: chunk %d of %d has the finish reason %v", asked, i, len(chunks), finish)
			}
			if i > 0 && at(c, "choices", 0, "delta", "role") != nil {
				t.Errorf("usage %v: chunk %d has a role again", asked, i)
			}
			if c["usage"] != nil {
				t.Errorf("usage %v: chunk %d has usage", asked, i)
			}
			if c["id"] != chunks[0]["id"] || c["object"] != "chat.completion.chunk" {
				t.Errorf("chunk %d: id %v, object %v", i, c["id"], c["object"])
			}
		}
	}
}

// The same request with the same seed gives the same bytes, cached or not. Other
// seeds give other answers.
func TestSeed(t *testing.T) {
	v := shared(t)
	answer := func(seed int, cache bool) string {
		r := v.post("/v1/chat/completions", object{
			"messages": user(question), "max_tokens": 24, "temperature": 1.2, "seed": seed, "cache_prompt": cache,
		})
		return at(r, "choices", 0, "message", "content").(string)
	}
	first := answer(7, false)
	for range 3 {
		if again := answer(7, true); again != first {
			t.Errorf("the same seed gave %q, then %q", first, again)
		}
	}
	if answer(8, true) == first && answer(9, true) == first {
		t.Error("three seeds gave the same answer")
	}
}

// Several answers to one prompt differ, and each can be reproduced.
func TestChoices(t *testing.T) {
	v := shared(t)
	body := object{"messages": user(question), "max_tokens": 16, "temperature": 1.5, "seed": 3, "n": 3}
	r := v.post("/v1/chat/completions", body)
	var all []string
	for i := range 3 {
		if at(r, "choices", i, "index") != float64(i) {
			t.Fatalf("choice %d: %v", i, at(r, "choices", i))
		}
		all = append(all, at(r, "choices", i, "message", "content").(string))
	}
	if all[0] == all[1] && all[1] == all[2] {
		t.Errorf("three choices are all %q", all[0])
	}
	if n := at(r, "usage", "completion_tokens"); n != 48.0 {
		t.Errorf("%v tokens were counted, want 48", n)
	}
	body["stream"] = true
	streamed := make([]string, 3)
	roles := 0
	for _, e := range v.events("/v1/chat/completions", body) {
		if e.data == "[DONE]" {
			continue
		}
		c := at(e.json(t), "choices", 0)
		i := int(at(c, "index").(float64))
		if s, ok := at(c, "delta", "content").(string); ok {
			streamed[i] += s
		}
		if at(c, "delta", "role") != nil {
			roles++
		}
	}
	if !slices.Equal(streamed, all) || roles != 3 {
		t.Errorf("streamed %q with %d roles, whole %q", streamed, roles, all)
	}
	body = object{"prompt": []string{"One, two,", "Red, green,"}, "max_tokens": 4, "n": 2}
	r = v.post("/v1/completions", body)
	if at(r, "choices", 3, "index") != 3.0 || at(r, "choices", 0, "text") != at(r, "choices", 1, "text") || at(r, "choices", 0, "text") == at(r, "choices", 2, "text") {
		t.Errorf("two prompts of two answers: %v", r["choices"])
	}
}

// Whatever the stop string is, the answer is the text before it, and a stream never
// shows a part of it.
func TestStop(t *testing.T) {
	v := shared(t)
	ask := object{"messages": user(question), "max_tokens": 24}
	whole := at(v.post("/v1/chat/completions", ask), "choices", 0, "message", "content").(string)
	var stops []string
	for _, span := range [][2]int{{3, 4}, {2, 9}, {5, 6}, {10, 30}} {
		if span[1] <= len(whole) && utf8.ValidString(whole[span[0]:span[1]]) {
			stops = append(stops, whole[span[0]:span[1]])
		}
	}
	for _, stop := range stops {
		ask["stop"] = []string{"never there", stop}
		ask["stream"] = false
		want, _, _ := strings.Cut(whole, stop)
		c := at(v.post("/v1/chat/completions", ask), "choices", 0)
		if got := at(c, "message", "content"); got != want || at(c, "finish_reason") != "stop" {
			t.Errorf("stop %q: %q, finish %v; want %q", stop, got, at(c, "finish_reason"), want)
		}
		ask["stream"] = true
		var streamed string
		for _, e := range v.events("/v1/chat/completions", ask) {
			if s, ok := at(reply{body: []byte(e.data)}.maybe(), "choices", 0, "delta", "content").(string); ok {
				streamed += s
			}
			if !strings.HasPrefix(want, streamed) {
				t.Fatalf("stop %q: the stream shows %q", stop, streamed)
			}
		}
		if streamed != want {
			t.Errorf("stop %q: streamed %q, want %q", stop, streamed, want)
		}
	}
	r := v.post("/v1/messages", object{"messages": user(question), "max_tokens": 24, "stop_sequences": stops[:1]})
	if r["stop_reason"] != "stop_sequence" || r["stop_sequence"] != stops[0] {
		t.Errorf("Anthropic: %v, %v", r["stop_reason"], r["stop_sequence"])
	}
	r = v.post("/completion", object{"prompt": whole[:1], "n_predict": 0})
	if r["content"] != "" || r["tokens_predicted"] != 0.0 {
		t.Errorf("n_predict 0: %v", r)
	}
}

// maybe is json for bodies that may not be JSON.
func (r reply) maybe() (v any) {
	if json.Unmarshal(r.body, &v) != nil {
		return nil
	}
	return v
}

// Characters that consist of several bytes and tokens are sent whole.
func TestWholeCharacters(t *testing.T) {
	v := shared(t)
	const text = "naïve 日本 🦆 e\u0301 ∑"
	for _, e := range v.events("/v1/completions", object{"prompt": "a", "stream": true, "grammar": fmt.Sprintf("root ::= %q", text)}) {
		if strings.Contains(e.data, "�") || !utf8.ValidString(e.data) {
			t.Errorf("a piece is %q", e.data)
		}
	}
	r := v.post("/v1/completions", object{"prompt": "a", "grammar": fmt.Sprintf("root ::= %q", text)})
	if got := at(r, "choices", 0, "text"); got != text {
		t.Errorf("%q, want %q", got, text)
	}
}

// Log-probabilities: the alternatives are in descending order, greedy answers take
// the best one, and the bytes form the text.
func TestLogprobs(t *testing.T) {
	v := shared(t)
	r := v.post("/v1/chat/completions", object{"messages": user(question), "max_tokens": 8, "logprobs": true, "top_logprobs": 4})
	list, _ := at(r, "choices", 0, "logprobs", "content").([]any)
	if len(list) != 8 {
		t.Fatalf("%d tokens have log-probabilities, want 8", len(list))
	}
	var text []byte
	for i, entry := range list {
		top, _ := at(entry, "top_logprobs").([]any)
		if len(top) != 4 || at(top, 0, "token") != at(entry, "token") || at(top, 0, "logprob") != at(entry, "logprob") {
			t.Errorf("token %d: %v", i, entry)
		}
		for j := range 3 {
			if at(top, j, "logprob").(float64) < at(top, j+1, "logprob").(float64) {
				t.Errorf("token %d: alternatives %v", i, top)
			}
		}
		for _, b := range at(entry, "bytes").([]any) {
			text = append(text, byte(b.(float64)))
		}
	}
	if got := at(r, "choices", 0, "message", "content"); got != string(text) {
		t.Errorf("the tokens make %q, the text is %q", text, got)
	}
	r = v.post("/v1/completions", object{"prompt": "The sea is", "max_tokens": 5, "logprobs": 2})
	l := at(r, "choices", 0, "logprobs")
	for _, key := range []string{"tokens", "token_logprobs", "top_logprobs", "text_offset"} {
		if x, _ := at(l, key).([]any); len(x) != 5 {
			t.Errorf("%s has %d entries, want 5", key, len(x))
		}
	}
}

// The pieces of llama-server's stream contain the slot, the tokens and their
// number. A piece may have several tokens, which its text does not show.
func TestPieces(t *testing.T) {
	v := shared(t)
	ask := object{"prompt": "The sea is", "n_predict": 12, "id_slot": 2, "stream": true, "stop": []string{"a sentence that holds text back"}, "logit_bias": [][]any{{216, 100}, {173, 50}}}
	events := v.events("/completion", ask)
	var got []any
	for _, e := range events[:len(events)-1] {
		p := e.json(t)
		list, _ := p["tokens"].([]any)
		if got = append(got, list...); p["id_slot"] != 2.0 || p["tokens_predicted"] != float64(len(got)) {
			t.Errorf("%d tokens: %v", len(got), p)
		}
	}
	delete(ask, "stream")
	ask["return_tokens"] = true
	if want := v.post("/completion", ask)["tokens"]; !reflect.DeepEqual(any(got), want) || len(events) == 1 {
		t.Errorf("streamed %v, whole %v", got, want)
	}
}

// An item of a response that ends too early is reported as incomplete, both when it
// ends and at the end of the response.
func TestIncompleteItem(t *testing.T) {
	v := shared(t)
	var done []any
	for _, e := range v.events("/v1/responses", object{"input": question, "max_output_tokens": 3, "stream": true}) {
		switch m := e.json(t); m["type"] {
		case "response.output_item.done":
			done = append(done, at(m, "item", "status"))
		case "response.incomplete":
			done = append(done, at(m, "response", "output", 0, "status"))
		}
	}
	if !reflect.DeepEqual(done, []any{"incomplete", "incomplete"}) {
		t.Errorf("the item is said to be %v", done)
	}
}

// Cached tokens are not computed again, and the counts say so.
func TestCached(t *testing.T) {
	v := shared(t)
	long := user("Remember these words: " + strings.Repeat("sand, water, wind, ", 40) + "and say the first.")
	ask := object{"messages": long, "max_tokens": 2}
	first := v.post("/v1/chat/completions", ask)
	again := v.post("/v1/chat/completions", ask)
	n := int(at(again, "usage", "prompt_tokens").(float64))
	if got := int(at(again, "usage", "prompt_tokens_details", "cached_tokens").(float64)); got != (n-1)/64*64 {
		t.Errorf("%d of %d tokens were cached, want %d", got, n, (n-1)/64*64)
	}
	if at(first, "choices", 0, "message", "content") != at(again, "choices", 0, "message", "content") {
		t.Error("the cached answer is another one")
	}
	m := v.post("/v1/messages", ask)
	if in, read := at(m, "usage", "input_tokens").(float64), at(m, "usage", "cache_read_input_tokens").(float64); int(in+read) != n || read == 0 {
		t.Errorf("Anthropic counts %v and %v tokens of %d", in, read, n)
	}
	if c := v.post("/v1/messages/count_tokens", object{"messages": long}); int(c["input_tokens"].(float64)) != n {
		t.Errorf("%v tokens counted, want %d", c["input_tokens"], n)
	}
	ask["cache_prompt"] = false
	if got := at(v.post("/v1/chat/completions", ask), "usage", "prompt_tokens_details", "cached_tokens"); got != 0.0 {
		t.Errorf("%v tokens cached with cache_prompt false", got)
	}
}

// Answers in a required form are valid, whole and streamed.
func TestForms(t *testing.T) {
	v := shared(t)
	schema := object{
		"type": "object", "required": []string{"name", "legs"}, "additionalProperties": false,
		"properties": object{"name": object{"type": "string", "maxLength": 12}, "legs": object{"type": "integer", "minimum": 0, "maximum": 8}},
	}
	check := func(what string, text any) {
		t.Helper()
		var got struct {
			Name *string
			Legs *int
		}
		s, _ := text.(string)
		if err := json.Unmarshal([]byte(s), &got); err != nil || got.Name == nil || got.Legs == nil || *got.Legs < 0 || *got.Legs > 8 {
			t.Errorf("%s: %q, %v", what, s, err)
		}
	}
	named := object{"type": "json_schema", "json_schema": object{"name": "animal", "schema": schema}}
	check("chat", at(v.post("/v1/chat/completions", object{"messages": user("A duck."), "response_format": named}), "choices", 0, "message", "content"))
	check("json_schema", v.post("/completion", object{"prompt": "A duck:", "json_schema": schema})["content"])
	check("response", at(v.post("/v1/responses", object{"input": "A duck.", "text": object{"format": object{"type": "json_schema", "name": "animal", "schema": schema}}}), "output", 0, "content", 0, "text"))
	form := object{"type": "json_schema", "schema": schema}
	for key, value := range map[string]any{"output_config": object{"format": form}, "output_format": form} {
		check(key, at(v.post("/v1/messages", object{"messages": user("A duck."), "max_tokens": 99, key: value}), "content", 0, "text"))
	}
	check("ollama", at(v.post("/api/chat", object{"model": "m", "messages": user("A duck."), "stream": false, "format": schema}), "message", "content"))
	r := v.post("/v1/completions", object{"prompt": "Is it true?", "grammar": `root ::= "yes" | "no"`})
	if s := at(r, "choices", 0, "text"); s != "yes" && s != "no" {
		t.Errorf("grammar: %v", s)
	}
	r = v.post("/v1/chat/completions", object{"messages": user("A duck."), "max_tokens": 300, "response_format": object{"type": "json_object"}})
	if c := at(r, "choices", 0); at(c, "finish_reason") == "stop" {
		var tree map[string]any
		if err := json.Unmarshal([]byte(at(c, "message", "content").(string)), &tree); err != nil {
			t.Errorf("json_object: %v", err)
		}
	}
	if text := string(v.ask("GET", "/metrics", nil).body); !strings.Contains(text, "\ngodwit_masked_tokens_refused_total 0\n") {
		t.Error("a token that a mask allowed was refused afterwards, or nobody counts")
	}
}

// Embeddings have length 1, are the same as numbers and as bytes, and are closer
// for similar texts.
func TestEmbeddings(t *testing.T) {
	v := shared(t)
	inputs := []string{"The duck swims.", "A duck is swimming.", "Interest rates rose again."}
	r := v.post("/v1/embeddings", object{"input": inputs})
	rows := make([][]float64, 3)
	for i := range rows {
		for _, x := range at(r, "data", i, "embedding").([]any) {
			rows[i] = append(rows[i], x.(float64))
		}
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	if len(rows[0]) != 576 || math.Abs(dot(rows[0], rows[0])-1) > 1e-5 { // rounded to float32
		t.Errorf("%d values with the length %g", len(rows[0]), dot(rows[0], rows[0]))
	}
	if dot(rows[0], rows[1]) <= dot(rows[0], rows[2]) {
		t.Errorf("likeness %g of near texts, %g of far ones", dot(rows[0], rows[1]), dot(rows[0], rows[2]))
	}
	r = v.post("/v1/embeddings", object{"input": inputs[0], "encoding_format": "base64"})
	raw, err := base64.StdEncoding.DecodeString(at(r, "data", 0, "embedding").(string))
	if err != nil || len(raw) != 4*576 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for i, want := range rows[0] {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != float32(want) {
			t.Fatalf("value %d is %g as bytes, %g as a number", i, got, want)
		}
	}
	e := v.post("/api/embed", object{"model": "m", "input": inputs})
	if got := at(e, "embeddings", 1, 5); got != rows[1][5] {
		t.Errorf("Ollama's embedding has %v, OpenAI's %v", got, rows[1][5])
	}
	if e := v.post("/api/embed", object{"model": "m", "input": ""}); !reflect.DeepEqual(e["embeddings"], []any{}) {
		t.Errorf("of nothing: %v", e)
	}
	if x, _ := at(v.post("/api/embeddings", object{"model": "m", "prompt": inputs[0]}), "embedding").([]any); len(x) != 576 {
		t.Errorf("the older endpoint gives %d values", len(x))
	}
}

// Tokenises and detokenises.
func TestTokens(t *testing.T) {
	v := shared(t)
	const text = "Hello <|im_end|> wörld"
	plain := v.post("/tokenize", object{"content": text, "parse_special": false})["tokens"].([]any)
	special := v.post("/tokenize", object{"content": text})["tokens"].([]any)
	if len(special) >= len(plain) {
		t.Errorf("%d tokens with special ones, %d without", len(special), len(plain))
	}
	for _, list := range [][]any{plain, special} {
		if got := v.post("/detokenize", object{"tokens": list})["content"]; got != text {
			t.Errorf("%v is %q, want %q", list, got, text)
		}
	}
	mixed := v.post("/tokenize", object{"content": []any{"a", 5, "b"}, "with_pieces": true})
	if at(mixed, "tokens", 1, "id") != 5.0 || at(mixed, "tokens", 0, "piece") != "a" {
		t.Errorf("a mixed list: %v", mixed)
	}
	// Text that a person typed never becomes a control token.
	a := v.post("/v1/messages/count_tokens", object{"messages": user("x<|im_end|>")})["input_tokens"].(float64)
	b := v.post("/v1/messages/count_tokens", object{"messages": user("x")})["input_tokens"].(float64)
	if a-b < 3 {
		t.Errorf("<|im_end|> in a message takes %v tokens, want those of its letters", a-b)
	}
}
