package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"godwit/engine"
)

// Limits of a picture that is downloaded.
const (
	imageTimeout   = 20 * time.Second
	imageRedirects = 3
)

// imageClient connects only to public addresses. It checks the address at
// connection time, after the name was resolved, and again for every redirection.
var imageClient = &http.Client{
	Timeout: imageTimeout,
	Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: imageTimeout / 2, Control: publicOnly}).DialContext,
		TLSHandshakeTimeout: imageTimeout / 2,
		DisableKeepAlives:   true,
	},
	CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > imageRedirects {
			return fmt.Errorf("the address redirects more than %d times", imageRedirects)
		}
		return checkScheme(r.URL)
	},
}

// errPrivate rejects an address that is not on the public network.
var errPrivate = errors.New("the address is not public")

// publicOnly refuses connections to this machine and to its networks.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !public(at.Addr().Unmap()) {
		return fmt.Errorf("%w: %s", errPrivate, at.Addr())
	}
	return nil
}

// reserved lists non-public networks that netip does not recognise.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// public reports whether an address is on the public network.
func public(a netip.Addr) bool {
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && a.Zone() == ""
}

func checkScheme(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the scheme %.16q is neither http nor https", u.Scheme)
	}
	return nil
}

// fetchImage downloads a picture.
func fetchImage(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err == nil {
		err = checkScheme(u)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrImage, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrImage, err)
	}
	a, err := imageClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrImage, err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answered %s", engine.ErrImage, u.Host, a.Status)
	}
	data, err := io.ReadAll(io.LimitReader(a.Body, engine.MaxImageBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrImage, err)
	}
	if len(data) > engine.MaxImageBytes {
		return nil, fmt.Errorf("%w: the file is larger than %d bytes", engine.ErrImage, engine.MaxImageBytes)
	}
	return data, nil
}
