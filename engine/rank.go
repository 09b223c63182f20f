package engine

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// ErrRank is returned for a model that cannot score documents.
var ErrRank = errors.New("this is not a reranker: its pooling type is not rank; load a model made for reranking, such as a BGE reranker, as GGUF")

// Rank returns a relevance score of a document for a query, and the number of
// tokens read. The score is unbounded, and higher is better.
func (e *Engine) Rank(ctx context.Context, query, document string) (score float32, tokens int, err error) {
	if !e.Config().Rank {
		return 0, 0, ErrRank
	}
	t, err := e.model.Tokenizer()
	if err != nil {
		return 0, 0, err
	}
	pair := rankPair(t, query, document)
	row, err := e.Embed(ctx, pair)
	if err != nil {
		return 0, 0, err
	}
	if len(row) != 1 {
		return 0, 0, fmt.Errorf("engine: a score of %d values", len(row))
	}
	return row[0], len(pair), nil
}

// rankPair joins a query and a document in the form on which rerankers are
// trained. BERT has one [SEP] between them, and RoBERTa's descendants have two
// </s>.
func rankPair(t *tokenizer.Tokenizer, query, document string) []llm.Token {
	bos, end := t.BOS(), t.EOS()
	wordPiece := t.Kind() == tokenizer.WPM
	if wordPiece && t.Sep() >= 0 {
		end = t.Sep()
	}
	var out []llm.Token
	if bos >= 0 {
		out = append(out, bos)
	}
	out = append(out, t.EncodeText(query, false, false)...)
	if end >= 0 {
		out = append(out, end)
		if !wordPiece {
			out = append(out, end)
		}
	}
	out = append(out, t.EncodeText(document, false, false)...)
	if end >= 0 {
		out = append(out, end)
	}
	return out
}
