package anthropic

import (
	"context"
	"net/http"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Routes lists the endpoints of messages and of batches. options returns the
// current settings.
func Routes(svc wire.Service, host wire.Host, options func() Options) []wire.Route {
	d := &dialect{Service: svc, host: host, options: options}
	return []wire.Route{
		wire.On("POST", "/v1/messages", "Answer a conversation in Anthropic's form.", wire.Generate(svc, d.parse), Request{}, Message{}),
		wire.On("POST", "/v1/messages/count_tokens", "Count the tokens of a conversation.", d.countTokens, Prompt{}, Count{}),
		wire.On("POST", "/v1/messages/batches", "Queue messages that are answered one by one.", d.startBatch, BatchRequest{}, Batch{}),
		wire.On("GET", "/v1/messages/batches", "List the batches, newest first.", d.listBatches, nil, BatchList{}, "limit", "after_id", "before_id"),
		wire.On("GET", "/v1/messages/batches/{id}", "Describe a batch.", d.oneBatch, nil, Batch{}),
		wire.On("DELETE", "/v1/messages/batches/{id}", "Delete a batch that has ended.", d.dropBatch, nil, BatchDeleted{}),
		wire.On("POST", "/v1/messages/batches/{id}/cancel", "Cancel a batch; finished answers are kept.", d.cancelBatch, nil, Batch{}),
		wire.On("GET", "/v1/messages/batches/{id}/results", "Return the results of a batch that has ended, as JSON lines.", d.batchResults, nil, nil),
	}
}

// parse reads and checks the body of a message.
func (d *dialect) parse(body []byte) (*Call, error) { return ParseMessages(body, d.options()) }

// countTokens answers POST /v1/messages/count_tokens.
func (d *dialect) countTokens(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	c, err := ParseCount(body, d.options())
	if err != nil {
		return err
	}
	notices, unused := c.Notes()
	d.Note(w, notices, unused)
	return d.Use(r, wire.Head{Model: c.Model, AsLoaded: true}, func(ctx context.Context, m *wire.Model) error {
		chat, err := c.Chat(m)
		if err != nil {
			return err
		}
		tokens, err := m.Engine.Encode(ctx, &engine.Request{Chat: chat})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, Count{Tokens: len(tokens)})
		return nil
	})
}
