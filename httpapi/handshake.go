package httpapi

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// upgradable returns the error of a request that is no good WebSocket handshake
// (RFC 6455, section 4.2.1). Package websocket checks it too, but does not answer in
// JSON.
func (c *call) upgradable() error {
	h := c.r.Header
	if c.r.Method != http.MethodGet {
		return &Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed - only GET is supported", allow: http.MethodGet}
	}
	if c.r.ProtoMajor != 1 || !hasToken(h, "Connection", "upgrade") || !hasToken(h, "Upgrade", "websocket") {
		c.w.Header().Set("Connection", "Upgrade")
		c.w.Header().Set("Upgrade", "websocket")
		return &Error{Status: http.StatusUpgradeRequired, Message: "this is a WebSocket: connect to it by HTTP/1.1, with Upgrade: websocket"}
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(h.Get("Sec-WebSocket-Key")))
	if err != nil || len(key) != 16 || len(h.Values("Sec-WebSocket-Key")) != 1 {
		return invalid("Sec-WebSocket-Key", "must be 16 bytes in base64")
	}
	if h.Get("Sec-WebSocket-Version") != "13" {
		c.w.Header().Set("Sec-WebSocket-Version", "13")
		return invalid("Sec-WebSocket-Version", "must be 13")
	}
	return c.sameOrigin()
}

// hasToken reports whether a header is a list with that token.
func hasToken(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// sameOrigin refuses a page of another site. Browsers let every page open a WebSocket
// anywhere, and say which it is by Origin; who sends none is no browser.
func (c *call) sameOrigin() error {
	origin := c.r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && u.Host != "" {
		own := []string{c.r.Host, c.base().Host}
		if slices.ContainsFunc(own, func(host string) bool { return strings.EqualFold(host, u.Host) }) ||
			slices.ContainsFunc(c.api.opts.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
			return nil
		}
	}
	return &Error{Status: http.StatusForbidden, Message: "pages of this origin may not open a terminal"}
}

// upgrade takes the connection over.
func (c *call) upgrade() (*websocket.Conn, error) {
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // by sameOrigin
	if err == nil {
		c.w.status = http.StatusSwitchingProtocols
	}
	return conn, err
}
