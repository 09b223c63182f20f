package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"

	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/app/tune"
	"godwit/engine/kv/layout"
)

// classes maps errors of the packages below to statuses.
var classes = []struct {
	is     error
	status int
	code   string
}{
	{store.ErrNotFound, http.StatusNotFound, "not_found"},
	{store.ErrInput, http.StatusBadRequest, "bad_request"},
	{store.ErrFull, http.StatusInsufficientStorage, "disk_full"},
	{store.ErrNewer, http.StatusBadRequest, "newer"},
	{syscall.ENOSPC, http.StatusInsufficientStorage, "disk_full"},
	{hub.ErrFile, http.StatusBadRequest, "no_model"},
	{hub.ErrNotFound, http.StatusNotFound, "not_found"},
	{hub.ErrName, http.StatusBadRequest, "bad_name"},
	{hub.ErrExists, http.StatusConflict, "exists"},
	{hub.ErrBusy, http.StatusConflict, "busy"},
	{hub.ErrSpace, http.StatusInsufficientStorage, "disk_full"},
	{hub.ErrAuth, http.StatusBadGateway, "hub_auth"},
	{hub.ErrLimited, http.StatusBadGateway, "hub_limited"},
	{hub.ErrServer, http.StatusBadGateway, "hub_server"},
	{hub.ErrNetwork, http.StatusBadGateway, "hub_network"},
	{hub.ErrOff, http.StatusForbidden, "downloads_off"},
	{hub.ErrBlocked, http.StatusBadRequest, "hub_blocked"},
	{tune.ErrFull, http.StatusInsufficientStorage, "full"},
	{tune.ErrNewer, http.StatusConflict, "newer_settings"},
	{config.ErrValue, http.StatusBadRequest, "bad_value"},
	{config.ErrLocked, http.StatusForbidden, "locked"},
	{config.ErrDamaged, http.StatusConflict, "damaged_settings"},
	{pool.ErrBusy, http.StatusConflict, "busy"},
	{layout.ErrBudget, http.StatusBadRequest, "kv_memory"},
	{errNoWindow, http.StatusNotImplemented, "no_window"},
	{errAnswering, http.StatusConflict, "answering"},
	{errClosing, http.StatusServiceUnavailable, "closing"},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, "too_slow"},
	{io.ErrUnexpectedEOF, http.StatusBadRequest, "broken_off"},
}

// fail sends an error.
func fail(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, ""
	var r *refusal
	var we *wire.Error
	var tooLarge *http.MaxBytesError
	message := err.Error()
	switch {
	case errors.As(err, &r):
		status, code = r.status, r.code
	case errors.As(err, &we):
		status, code = we.Status, we.Code
	case errors.As(err, &tooLarge):
		status, code, message = http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf(textTooLarge, tooLarge.Limit>>20)
	}
	for _, c := range classes {
		if errors.Is(err, c.is) {
			status, code = c.status, c.code
			break
		}
	}
	switch _, what, ok := strings.Cut(message, store.ErrInput.Error()+": "); {
	case ok:
		message = what
	case errors.Is(err, store.ErrNotFound):
		message = textGone
	case errors.Is(err, store.ErrNewer):
		message = textNewer
	case status == http.StatusRequestTimeout:
		w.Header().Set("Connection", "close") // the rest of the body must not be read as a new request
		message = textTooSlow
	case code == "broken_off":
		message = textEndedEarly
	}
	send(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

// send writes a response.
func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(wire.JSON(body), '\n')) // the page may have disconnected
}

// Maximum sizes of request bodies in bytes.
const (
	textBody  = 40 << 20 // a message with its attachments, or a system prompt
	smallBody = 1 << 20  // all other requests
)

// read decodes the body of a request of limited size.
func read(w http.ResponseWriter, r *http.Request, size int64, into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, size))
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return bad(textNotThePage, err)
	}
	return nil
}
