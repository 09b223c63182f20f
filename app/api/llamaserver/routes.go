package llamaserver

import (
	"net/http"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
)

// Routes lists the endpoints of llama-server that OpenAI does not have.
func Routes(svc wire.Service, host wire.Host, shelf wire.Shelf, p Parts) []wire.Route {
	d := &dialect{svc, host, shelf, p.Models, p.States, p.Metrics, p.Version}
	completion := wire.Generate(svc, ParseCompletion)
	return []wire.Route{
		wire.On("GET", "/health", "Report whether the model is loaded.", d.health, nil, Health{}),
		wire.On("GET", "/v1/health", "Same as /health.", d.health, nil, Health{}),
		wire.On("GET", "/props", "Describe the loaded model.", d.props, nil, Props{}, "model"),
		wire.On("GET", "/slots", "List the slots.", d.slots, nil, []Slot{}, "model", "fail_on_no_slot"),
		wire.On("POST", "/slots/{id}", "Save, restore or erase a slot; the body names the file.", d.slot, nil, nil, "action", "model"),
		wire.On("GET", "/metrics", "Counters in the text form of Prometheus.", d.metricsText, nil, nil),
		wire.On("POST", "/tokenize", "Tokenize text.", d.tokenize, TokenizeRequest{}, Tokens{}),
		wire.On("POST", "/detokenize", "Convert token ids to text.", d.detokenize, DetokenizeRequest{}, Text{}),
		wire.On("POST", "/apply-template", "Render a conversation with the chat template.", d.applyTemplate, openai.ChatRequest{}, Prompt{}),
		wire.On("POST", "/completion", "Continue a text.", completion, CompletionRequest{}, Completion{}),
		wire.On("POST", "/completions", "Same as /completion.", completion, CompletionRequest{}, Completion{}),
		wire.On("GET", "/lora-adapters", "List the LoRA adapters with their scales.", d.loras, nil, []Adapter{}),
		wire.On("POST", "/lora-adapters", "Set the scales of the LoRA adapters; adapters that are not listed are switched off.", d.setLoras, []AdapterScale{}, Done{}),
		wire.On("POST", "/infill", "Fill the gap between two texts.", wire.Generate(svc, ParseInfill), InfillRequest{}, Completion{}),
		wire.On("POST", "/embedding", "Compute embeddings, in llama-server's own form.", d.embed, EmbeddingRequest{}, []Embedding{}),
		wire.On("POST", "/embeddings", "Same as /embedding.", d.embed, EmbeddingRequest{}, []Embedding{}),
		wire.On("POST", "/rerank", "Score documents for a query, with a reranker.", d.rerank, RerankRequest{}, Reranked{}),
		wire.On("POST", "/reranking", "Same as /rerank.", d.rerank, RerankRequest{}, Reranked{}),
		wire.On("POST", "/v1/rerank", "Same as /rerank.", d.rerank, RerankRequest{}, Reranked{}),
		wire.On("POST", "/v1/reranking", "Same as /rerank.", d.rerank, RerankRequest{}, Reranked{}),
		wire.On("POST", "/v1/chat/completions/input_tokens", "Count the tokens of a conversation.", d.countChat, openai.ChatRequest{}, InputTokens{}).In((*wire.Error).Body),
		wire.On("POST", "/models", "Download a model in the background.", d.download, Named{}, Done{}),
		wire.On("DELETE", "/models", "Remove a model from the library.", d.remove, nil, Done{}, "model"),
		wire.On("POST", "/models/load", "Load a model.", d.load, Named{}, Done{}),
		wire.On("POST", "/models/unload", "Unload a model.", d.unload, Named{}, Done{}),
		wire.On("GET", "/models/sse", "Stream loads, unloads and downloads as events.", d.events, nil, nil),
	}
}

// metricsText answers GET /metrics.
func (d *dialect) metricsText(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	d.metrics(w)
	return nil
}
