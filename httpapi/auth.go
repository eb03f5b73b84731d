package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// BearerKeys returns an Authenticator of requests that carry one of the given
// keys as "Authorization: Bearer KEY" (RFC 6750). Owners maps a key to the owner
// it belongs to; it is copied. The time a comparison takes does not depend on the
// keys. An empty key matches no request.
func BearerKeys(owners map[string]string) Authenticator {
	type entry struct {
		sum   [sha256.Size]byte // of equal length for every key
		owner string
	}
	var entries []entry
	for key, owner := range owners {
		if key != "" {
			entries = append(entries, entry{sha256.Sum256([]byte(key)), owner})
		}
	}
	return func(r *http.Request) (Principal, error) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Principal{}, errors.New("no bearer key")
		}
		sum := sha256.Sum256([]byte(strings.TrimLeft(key, " ")))
		match := -1
		for i := range entries {
			if subtle.ConstantTimeCompare(sum[:], entries[i].sum[:]) == 1 {
				match = i
			}
		}
		if match < 0 {
			return Principal{}, errors.New("unknown bearer key")
		}
		return Principal{Owner: entries[match].owner}, nil
	}
}

// Anyone is an Authenticator that lets every request in, as one and the same
// owner, the empty one. It is for tests, and for APIs that something in front of
// them protects.
func Anyone(*http.Request) (Principal, error) { return Principal{}, nil }
