package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// Uses OpenAI's official client for Go.
func TestOpenAIGo(t *testing.T) {
	v := shared(t)
	client := openai.NewClient(option.WithBaseURL(v.url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	ctx := t.Context()
	ask := openai.ChatCompletionNewParams{
		Model: "any", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		MaxTokens: openai.Int(12), Temperature: openai.Float(0),
	}
	whole, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, ask)
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			t.Errorf("a chunk that does not go with the others: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := sum.Choices[0].Message.Content, whole.Choices[0].Message.Content; got != want || sum.Choices[0].FinishReason != "length" {
		t.Errorf("streamed %q, finish %s; whole %q", got, sum.Choices[0].FinishReason, want)
	}

	ask.MaxTokens = openai.Int(200)
	ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather", Parameters: openai.FunctionParameters{
			"type": "object", "properties": object{"city": object{"type": "string", "maxLength": 20}}, "required": []string{"city"},
		},
	})}
	ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("required")}
	stream = client.Chat.Completions.NewStreaming(ctx, ask)
	sum = openai.ChatCompletionAccumulator{}
	for stream.Next() {
		sum.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(sum.Choices[0].Message.ToolCalls) == 0 || sum.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("no call: %s", sum.RawJSON())
	}
	for _, call := range sum.Choices[0].Message.ToolCalls {
		var args struct{ City *string }
		if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil || args.City == nil || call.Function.Name != "weather" || call.ID == "" {
			t.Errorf("call %q of %s with %q: %v", call.ID, call.Function.Name, call.Function.Arguments, err)
		}
	}

	r, err := client.Responses.New(ctx, responses.ResponseNewParams{
		Model: "any", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(question)}, MaxOutputTokens: openai.Int(12), Temperature: openai.Float(0),
	})
	if err != nil || r.OutputText() != whole.Choices[0].Message.Content {
		t.Errorf("response %q, %v", r.OutputText(), err)
	}
	rows, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "any", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("The sea.")}})
	if err != nil || len(rows.Data[0].Embedding) != 576 {
		t.Errorf("embedding: %v", err)
	}
	ask.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("hello ", 3000))}
	_, err = client.Chat.Completions.New(ctx, ask)
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusBadRequest || e.Code != "context_length_exceeded" || e.Type != "exceed_context_size_error" {
		t.Errorf("overflow: %v", err)
	}
}
