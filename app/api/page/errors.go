package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"godwit/app/api"
	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/store"
)

// refusal is an error with its status.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.message }

func bad(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "bad_request", fmt.Sprintf(format, args...)}
}

// classes are the statuses of errors of the packages below.
var classes = []struct {
	is     error
	status int
	code   string
}{
	{store.ErrNotFound, http.StatusNotFound, "not_found"},
	{store.ErrInput, http.StatusBadRequest, "bad_request"},
	{store.ErrFull, http.StatusInsufficientStorage, "disk_full"},
	{hub.ErrNotFound, http.StatusNotFound, "not_found"},
	{hub.ErrName, http.StatusBadRequest, "bad_name"},
	{hub.ErrExists, http.StatusConflict, "exists"},
	{hub.ErrBusy, http.StatusConflict, "busy"},
	{hub.ErrSpace, http.StatusInsufficientStorage, "disk_full"},
	{hub.ErrAuth, http.StatusBadGateway, "hub_auth"},
	{hub.ErrLimited, http.StatusBadGateway, "hub_limited"},
	{hub.ErrServer, http.StatusBadGateway, "hub_server"},
	{hub.ErrNetwork, http.StatusBadGateway, "hub_network"},
	{hub.ErrBlocked, http.StatusBadRequest, "hub_blocked"},
	{config.ErrValue, http.StatusBadRequest, "bad_value"},
	{config.ErrDamaged, http.StatusConflict, "damaged_settings"},
	{api.ErrBusy, http.StatusConflict, "busy"},
	{errNoWindow, http.StatusNotImplemented, "no_window"},
	{errAnswering, http.StatusConflict, "answering"},
	{errClosing, http.StatusServiceUnavailable, "closing"},
}

// fail sends an error.
func fail(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, ""
	var r *refusal
	var we *wire.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &r):
		status, code = r.status, r.code
	case errors.As(err, &we):
		status, code = we.Status, we.Code
	case errors.As(err, &tooLarge):
		status, code = http.StatusRequestEntityTooLarge, "too_large"
	}
	for _, c := range classes {
		if errors.Is(err, c.is) {
			status, code = c.status, c.code
			break
		}
	}
	send(w, status, map[string]any{"error": map[string]string{"code": code, "message": err.Error()}})
}

// send writes an answer.
func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(wire.JSON(body), '\n')) // a page that has gone cannot be told so
}

// maxBody is the size of a request: a message with its attachments.
const maxBody = 40 << 20

// read decodes the body of a request.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return bad("the request is not what the page sends: %v", err)
	}
	return nil
}
