package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document compiles the schemas in the OpenAPI document.
func document(t *testing.T, v *live) (doc map[string]any, schema func(pointer string) *jsonschema.Schema) {
	t.Helper()
	doc = v.ask("GET", "/openapi.json", nil).json(t)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///doc", doc); err != nil {
		t.Fatal(err)
	}
	return doc, func(pointer string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("mem:///doc#" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// pointer builds a JSON pointer.
func pointer(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return b.String()
}

// The document contains every endpoint and matches real requests and responses.
func TestOpenAPI(t *testing.T) {
	v := shared(t)
	doc, schema := document(t, v)
	for _, r := range v.endpoints.all {
		path := documented(r.Path)
		op := at(doc, "paths", path, strings.ToLower(r.Method))
		if op == nil || at(op, "summary") == "" {
			t.Errorf("%s %s is not in the document", r.Method, r.Path)
			continue
		}
		if r.Request != nil {
			schema(pointer("paths", path, strings.ToLower(r.Method), "requestBody", "content", "application/json", "schema"))
		}
		if r.Answer != nil {
			schema(pointer("paths", path, strings.ToLower(r.Method), "responses", "200", "content", "application/json", "schema"))
		}
	}
	tools := []object{{"type": "function", "function": object{"name": "f", "parameters": object{"type": "object"}}}}
	for _, c := range []struct {
		method, path, real string
		body               any
	}{
		{"GET", "/v1/models", "", nil},
		{"GET", "/v1/models/{id}", "/v1/models/" + v.model(t), nil},
		{"POST", "/v1/chat/completions", "", object{"messages": user("a"), "max_tokens": 2, "logprobs": true, "top_logprobs": 2, "stop": "x", "tools": tools, "seed": 1, "temperature": 0.5, "logit_bias": object{"5": 1}}},
		{"POST", "/v1/completions", "", object{"prompt": "a", "max_tokens": 2, "logprobs": 1, "stop": []string{"x"}}},
		{"POST", "/v1/embeddings", "", object{"input": "a"}},
		{"POST", "/v1/responses", "", object{"input": "a", "max_output_tokens": 2}},
		{"POST", "/v1/messages", "", object{"messages": user("a"), "max_tokens": 2, "system": "b"}},
		{"POST", "/v1/messages/count_tokens", "", object{"messages": user("a")}},
		{"GET", "/health", "", nil},
		{"GET", "/props", "", nil},
		{"GET", "/slots", "", nil},
		{"POST", "/tokenize", "", object{"content": "a"}},
		{"POST", "/detokenize", "", object{"tokens": []int{5}}},
		{"POST", "/apply-template", "", object{"messages": user("a")}},
		{"POST", "/completion", "", object{"prompt": "a", "n_predict": 2, "n_probs": 1}},
		{"GET", "/api/tags", "", nil},
		{"GET", "/api/ps", "", nil},
		{"GET", "/api/version", "", nil},
		{"POST", "/api/show", "", object{"model": "m"}},
		{"POST", "/api/chat", "", object{"model": "m", "messages": user("a"), "stream": false, "options": object{"num_predict": 2}}},
		{"POST", "/api/generate", "", object{"model": "m", "prompt": "a", "stream": false, "options": object{"num_predict": 2}, "keep_alive": "5m"}},
		{"POST", "/api/embed", "", object{"model": "m", "input": "a"}},
		{"GET", "/api/kv", "", nil},
		{"GET", "/api/kv/plan", "/api/kv/plan?ctx=100&k=q8_0", nil},
		{"GET", "/api/v0/models", "", nil},
	} {
		real := c.real
		if real == "" {
			real = c.path
		}
		r := v.ask(c.method, real, c.body)
		if r.status != 200 {
			t.Errorf("%s %s: %d %s", c.method, real, r.status, r.body)
			continue
		}
		op := []string{"paths", c.path, strings.ToLower(c.method)}
		var answer any
		if err := json.Unmarshal(r.body, &answer); err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if err := schema(pointer(append(op, "responses", "200", "content", "application/json", "schema")...)).Validate(answer); err != nil {
			t.Errorf("%s: the answer is not what the document says: %v", c.path, err)
		}
		if c.body == nil {
			continue
		}
		var body any
		raw, _ := json.Marshal(c.body)
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		if err := schema(pointer(append(op, "requestBody", "content", "application/json", "schema")...)).Validate(body); err != nil {
			t.Errorf("%s: the request is not what the document says: %v", c.path, err)
		}
	}
}

// The cache panel's numbers equal those of the memory.
func TestKV(t *testing.T) {
	v := startModel(t, func(o *setup) {
		o.Engine.Want.K, o.Engine.Want.V = nil, nil
		o.Engine.SparseV = 1e-3
	})
	v.post("/v1/completions", object{"prompt": strings.Repeat("sand ", 300), "max_tokens": 4})
	plan := v.ask("GET", "/api/kv", nil).json(t)
	layers, _ := plan["layers"].([]any)
	if len(layers) != 30 || plan["ctx"] != 1024.0 {
		t.Fatalf("%d layers, context %v", len(layers), plan["ctx"])
	}
	var sum float64
	for i := range layers {
		for _, side := range []string{"k", "v"} {
			s := at(layers, i, side)
			if at(s, "active") != "f16" || at(s, "row_bytes") != 384.0 || at(s, "bytes") != 384.0*4096 {
				t.Errorf("layer %d %s: %v", i, side, s)
			}
			sum += at(s, "bytes").(float64)
		}
	}
	if plan["bytes"] != sum {
		t.Errorf("bytes %v, the layers add up to %v", plan["bytes"], sum)
	}
	if considered := at(layers, 5, "sparse_v", "considered").(float64); considered == 0 {
		t.Error("Sparse V considered nothing")
	}
	for _, query := range []string{"ctx=0", "ctx=x", "ctx=99999999999", "k=nope", "v=nope"} {
		if r := v.ask("GET", "/api/kv/plan?"+query, nil); r.status != 400 {
			t.Errorf("plan with %s: %d", query, r.status)
		}
	}
}

// Metrics have Prometheus' format, and count.
func TestMetrics(t *testing.T) {
	v := shared(t)
	v.post("/v1/completions", object{"prompt": "a", "max_tokens": 3})
	text := string(v.ask("GET", "/metrics", nil).body)
	line := regexp.MustCompile(`^(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})? [-+0-9.eE]+(NaN|Inf)?)$`)
	for l := range strings.Lines(text) {
		if !line.MatchString(strings.TrimSpace(l)) {
			t.Errorf("not a metric: %s", l)
		}
	}
	for _, name := range []string{"godwit_generated_tokens_total", "godwit_requests_total{endpoint=\"POST /v1/completions\",status=\"200\"}", "llamacpp:tokens_predicted_total", "llamacpp:kv_cache_usage_ratio", "godwit_step_seconds_count", "godwit_sparse_v_rows{state=\"skipped\"}", "godwit_kv_saturated_blocks 0\n"} {
		if !strings.Contains(text, name) {
			t.Errorf("no %s", name)
		}
	}
}

// The server opens no connections: all open connections lead to loopback.
func TestNoConnections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc, which only Linux has")
	}
	v := shared(t)
	v.post("/v1/chat/completions", object{"messages": user("a"), "max_tokens": 2})
	v.ask("GET", "/api/tags", nil)
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if link, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	seen := 0
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile("/proc/self/net/" + table)
		if err != nil {
			continue
		}
		for _, l := range strings.Split(string(data), "\n")[1:] {
			f := strings.Fields(l)
			if len(f) < 10 || !mine[f[9]] {
				continue
			}
			seen++
			remote, _, _ := strings.Cut(f[2], ":")
			if remote != "0100007F" && strings.Trim(remote, "0") != "" {
				t.Errorf("a %s socket to %s", table, f[2])
			}
		}
	}
	if seen == 0 {
		t.Error("not even the server's own sockets were found")
	}
}
