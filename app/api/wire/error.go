// Package wire holds what all dialects of the API share: strict decoding of request
// bodies into wire types, errors, the parts of messages, and the shape of a
// translated request.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Types of errors, as OpenAI and llama-server name them.
const (
	Invalid      = "invalid_request_error"
	Overflow     = "exceed_context_size_error"
	Unauthorized = "authentication_error"
	Forbidden    = "permission_error"
	NotFound     = "not_found_error"
	Unsupported  = "not_supported_error"
	Unavailable  = "unavailable_error"
	Limited      = "rate_limit_error"
	Internal     = "server_error"
)

// Error is an error for a client. Each dialect writes it in its own form.
type Error struct {
	Status  int
	Type    string
	Code    string // more specific than Type; may be empty
	Param   string // name of the wrong field; may be empty
	Message string
	Retry   time.Duration // for the header Retry-After; 0 for no header

	Prompt, Context int // token counts, set if Code is Overflow
}

func (e *Error) Error() string { return e.Message }

// Bad returns an error with status 400 that names a field.
func Bad(param, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	if param != "" {
		message = param + ": " + message
	}
	return &Error{Status: http.StatusBadRequest, Type: Invalid, Param: param, Message: message}
}

// At returns err with from replaced by to in the path of its field. Other
// errors are returned unchanged.
func At(err error, from, to string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	moved := *e
	moved.Param = strings.Replace(e.Param, from, to, 1)
	moved.Message = strings.Replace(e.Message, e.Param, moved.Param, 1)
	return &moved
}

// Fault returns an error with any status and type.
func Fault(status int, kind, format string, args ...any) *Error {
	return &Error{Status: status, Type: kind, Message: fmt.Sprintf(format, args...)}
}

// ErrorBody is OpenAI's error object. Endpoints without another form use it
// too: {"error": {"message", "type", "code", "param"}}.
type ErrorBody struct {
	Error ErrorObject `json:"error"`
}

// ErrorObject is the object inside an ErrorBody.
type ErrorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
	Prompt  int     `json:"n_prompt_tokens,omitempty"`
	Context int     `json:"n_ctx,omitempty"`
}

// Body returns the error in OpenAI's form.
func (e *Error) Body() any {
	return ErrorBody{ErrorObject{
		Message: e.Message, Type: e.Type, Param: optional(e.Param), Code: optional(e.Code),
		Prompt: e.Prompt, Context: e.Context,
	}}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Kind describes the type of a JSON value in words.
func Kind(raw json.RawMessage) string {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return "an object"
		case '[':
			return "a list"
		case '"':
			return "a string"
		case 't', 'f':
			return "a boolean"
		case 'n':
			return "null"
		}
		return "a number"
	}
	return "nothing"
}

// IsNull reports whether a value is null or missing.
func IsNull(raw json.RawMessage) bool {
	k := Kind(raw)
	return k == "null" || k == "nothing"
}

// TooLong returns the error for a prompt with more tokens than fit in the
// context.
func TooLong(param string, tokens, context int) *Error {
	e := Bad(param, "%d tokens do not fit into the context of %d", tokens, context)
	e.Type, e.Code, e.Prompt, e.Context = Overflow, "context_length_exceeded", tokens, context
	return e
}
