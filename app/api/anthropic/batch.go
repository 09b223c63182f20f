package anthropic

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"godwit/app/api/wire"
)

// BatchRequest is the body of POST /v1/messages/batches.
type BatchRequest struct {
	Requests []json.RawMessage `json:"requests" need:"" doc:"Objects with a unique custom_id and params, the body of a message."`
}

// Batched is a request in a batch.
type Batched struct {
	ID     string
	Params json.RawMessage
}

// Batch describes a batch.
type Batch struct {
	ID        string      `json:"id"`
	Type      string      `json:"type"`
	Status    string      `json:"processing_status"` // in_progress, canceling, ended
	Counts    BatchCounts `json:"request_counts"`
	Created   string      `json:"created_at"`
	Expires   string      `json:"expires_at"`
	Ended     *string     `json:"ended_at"`
	Cancelled *string     `json:"cancel_initiated_at"`
	Archived  *string     `json:"archived_at"`
	Results   *string     `json:"results_url"`
}

// BatchCounts counts the requests of a batch by state.
type BatchCounts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Cancelled  int `json:"canceled"`
	Expired    int `json:"expired"`
}

// Count moves a request from processing to its final state.
func (c *BatchCounts) Count(kind string) {
	c.Processing--
	switch kind {
	case Succeeded:
		c.Succeeded++
	case Errored:
		c.Errored++
	case Cancelled:
		c.Cancelled++
	default:
		c.Expired++
	}
}

// The final states of a request in a batch.
const (
	Succeeded = "succeeded"
	Errored   = "errored"
	Cancelled = "canceled"
	Expired   = "expired"
)

// BatchDeleted is the response of DELETE /v1/messages/batches/{id}.
type BatchDeleted struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// BatchResult is a line in the results of a batch.
type BatchResult struct {
	ID     string      `json:"custom_id"`
	Result BatchAnswer `json:"result"`
}

// BatchAnswer is the outcome of a request.
type BatchAnswer struct {
	Type    string `json:"type"`
	Message any    `json:"message,omitempty"`
	Error   any    `json:"error,omitempty"`
}

var customID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ParseBatch reads and checks a body. The params of a request are read when it
// is answered.
func ParseBatch(body []byte) ([]Batched, error) {
	var b BatchRequest
	if err := wire.Decode(body, &b); err != nil {
		return nil, err
	}
	if len(b.Requests) == 0 {
		return nil, wire.Bad("requests", "want at least one request")
	}
	out, seen := make([]Batched, len(b.Requests)), map[string]bool{}
	for i, raw := range b.Requests {
		path := fmt.Sprintf("requests[%d]", i)
		o, err := wire.ReadObject(raw, path)
		if err != nil {
			return nil, err
		}
		id, err := wire.Text(o.Value("custom_id"), path+".custom_id")
		switch {
		case err != nil:
			return nil, err
		case !customID.MatchString(id):
			return nil, wire.Bad(path+".custom_id", "%.80q: want 1 to 64 letters, digits, _ and -", id)
		case seen[id]:
			return nil, wire.Bad(path+".custom_id", "%q occurs twice", id)
		}
		seen[id] = true
		if k := wire.Kind(o.Value("params")); k != "an object" {
			return nil, wire.Bad(path+".params", "want an object, got %s", k)
		}
		out[i] = Batched{id, o.Value("params")}
	}
	return out, nil
}

// Timestamp formats a time as Anthropic does.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// BatchList is the response of GET /v1/messages/batches.
type BatchList List[Batch]
