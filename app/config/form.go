package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// forms maps the name of a form to a function that checks whether a text has
// that form. Empty text selects the default, except for a key.
var forms = map[string]func(text string) error{
	"object": objectForm,
	"url":    urlForm,
	"origin": originForm,
	"host":   hostForm,
	"key":    keyForm,
}

// checkForm checks text against the form of the field.
func (f *Field) checkForm(text string) error {
	check := forms[f.form]
	if check == nil || text == "" && f.Kind == "text" {
		return nil
	}
	return check(text)
}

func objectForm(text string) error {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &o); err != nil || o == nil {
		return fmt.Errorf(`%w: %.128q is not a JSON object such as {"enable_thinking": false}`, ErrValue, text)
	}
	return nil
}

// web parses a web address without user, query and fragment.
func web(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, false
	}
	return u, (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func urlForm(text string) error {
	if _, ok := web(text); !ok {
		return fmt.Errorf("%w: %q is not an address such as https://example.org", ErrValue, text)
	}
	return nil
}

// originForm accepts an origin as browsers send it: scheme, host and port.
// Applications have other schemes than http.
func originForm(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return fmt.Errorf("%w: %q is not an origin such as https://example.org:8443", ErrValue, text)
	}
	return nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})$`)

// hostForm accepts a name or an address, with or without a port.
func hostForm(text string) error {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			host = h
		}
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && !hostName.MatchString(host) {
		return fmt.Errorf("%w: %q is not a host name such as box.local", ErrValue, text)
	}
	return nil
}

// keyForm checks a key. Its errors never contain the key.
func keyForm(text string) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("%w: the key is blank", ErrValue)
	}
	return nil
}
