package llamaserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
)

// EmbeddingRequest is the body of POST /embedding.
type EmbeddingRequest struct {
	Model     string          `json:"model" most:"512" doc:"Name of the model."`
	Content   json.RawMessage `json:"content" doc:"A text, a list of token ids, or a list of either."`
	Input     json.RawMessage `json:"input" doc:"Same as content."`
	Normalize *int            `json:"embd_normalize" min:"-1" max:"100" doc:"Norm to divide by. -1: none, 0: maximum, 1: sum, 2 (default): Euclidean, larger: that p-norm."`
}

// Embedding is the embedding of a text. It is a list with one row.
type Embedding struct {
	Index int         `json:"index"`
	Rows  [][]float32 `json:"embedding"`
}

// embed answers POST /embedding.
func (d *dialect) embed(w http.ResponseWriter, r *http.Request) error {
	var q EmbeddingRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	raw, path := q.Content, "content"
	if wire.IsNull(raw) {
		raw, path = q.Input, "input"
	}
	inputs, err := openai.ReadInputs(raw, path)
	if err != nil {
		return err
	}
	return d.Use(r, wire.Head{Model: q.Model}, func(ctx context.Context, m *wire.Model) error {
		t, err := m.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		lists, err := inputs.Tokens(t, m.Engine.Config().Vocab, m.Engine.Context(), path)
		if err != nil {
			return err
		}
		out := []Embedding{}
		for i, tokens := range lists {
			if err := wire.TallyOf(ctx).Add(len(tokens), 0, 0); err != nil {
				return err
			}
			row, err := m.Engine.Embed(ctx, tokens)
			if err != nil {
				return err
			}
			out = append(out, Embedding{i, [][]float32{normalize(row, q.Normalize)}})
		}
		wire.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// normalize divides a row by its norm. 0 selects the maximum norm, and then
// scales the row to 32760 like llama-server. A positive number p selects the
// p-norm. A negative number leaves the row unchanged.
func normalize(row []float32, kind *int) []float32 {
	p := 2
	if kind != nil {
		p = *kind
	}
	var sum float64
	for _, x := range row {
		a := math.Abs(float64(x))
		switch {
		case p < 0:
			return row
		case p == 0:
			sum = max(sum, a)
		default:
			sum += math.Pow(a, float64(p))
		}
	}
	if p == 0 {
		sum /= 32760
	} else {
		sum = math.Pow(sum, 1/float64(p))
	}
	if sum == 0 || math.IsInf(sum, 0) {
		return row
	}
	for i, x := range row {
		row[i] = float32(float64(x) / sum)
	}
	return row
}

// RerankRequest is the body of POST /rerank.
type RerankRequest struct {
	Model     string            `json:"model" most:"512" doc:"Name of the model."`
	Query     string            `json:"query" need:"" doc:"Query."`
	Documents []json.RawMessage `json:"documents" most:"2048" doc:"Texts, or objects with a text."`
	Texts     []json.RawMessage `json:"texts" most:"2048" doc:"Same as documents, but the response is a list."`
	Top       *int              `json:"top_n" min:"1" doc:"Maximum number of results."`
	Return    bool              `json:"return_documents" doc:"Also return the documents."`
}

// Reranked is the response of POST /rerank, with the best document first.
type Reranked struct {
	Model   string                `json:"model"`
	Object  string                `json:"object"`
	Usage   openai.EmbeddingUsage `json:"usage"`
	Results []RerankResult        `json:"results"`
}

// RerankResult is the score of a document.
type RerankResult struct {
	Index    int         `json:"index"`
	Score    float32     `json:"relevance_score"`
	Document *RerankText `json:"document,omitempty"`
}

// RerankText is the text of a document.
type RerankText struct {
	Text string `json:"text"`
}

// rankScore is the score of a document in responses to requests with the field
// texts.
type rankScore struct {
	Index int     `json:"index"`
	Score float32 `json:"score"`
	Text  *string `json:"text,omitempty"`
}

// rerank answers POST /rerank.
func (d *dialect) rerank(w http.ResponseWriter, r *http.Request) error {
	var q RerankRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	list, path := q.Documents, "documents"
	if len(list) == 0 && q.Texts != nil {
		list, path = q.Texts, "texts"
	}
	if len(list) == 0 {
		return wire.Bad(path, "want at least one document")
	}
	texts := make([]string, len(list))
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if wire.Kind(raw) == "an object" {
			o, err := wire.ReadObject(raw, at)
			if err != nil {
				return err
			}
			raw, at = o.Value("text"), at+".text"
		}
		var err error
		if texts[i], err = wire.Text(raw, at); err != nil {
			return err
		}
	}
	return d.Use(r, wire.Head{Model: q.Model}, func(ctx context.Context, m *wire.Model) error {
		out := Reranked{Model: m.Name, Object: "list", Results: []RerankResult{}}
		for i, text := range texts {
			score, tokens, err := m.Engine.Rank(ctx, q.Query, text)
			if err == nil {
				err = wire.TallyOf(ctx).Add(tokens, 0, 0)
			}
			if err != nil {
				return err
			}
			one := RerankResult{Index: i, Score: score}
			if q.Return {
				one.Document = &RerankText{text}
			}
			out.Results = append(out.Results, one)
			out.Usage.Prompt += tokens
		}
		out.Usage.Total = out.Usage.Prompt
		slices.SortStableFunc(out.Results, func(a, b RerankResult) int { return cmp.Compare(b.Score, a.Score) })
		if q.Top != nil {
			out.Results = out.Results[:min(*q.Top, len(out.Results))]
		}
		if path == "documents" {
			wire.WriteJSON(w, http.StatusOK, out)
			return nil
		}
		scores := []rankScore{}
		for _, x := range out.Results {
			one := rankScore{Index: x.Index, Score: x.Score}
			if x.Document != nil {
				one.Text = &x.Document.Text
			}
			scores = append(scores, one)
		}
		wire.WriteJSON(w, http.StatusOK, scores)
		return nil
	})
}
