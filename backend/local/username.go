package local

import (
	"os/user"
	"strconv"
)

// userName returns the name of who commands run as: "sandbox" for a sandbox's own
// user, which has no entry anywhere.
func userName(u identity) string {
	if u.own {
		return "sandbox"
	}
	id := strconv.Itoa(int(u.id))
	if known, err := user.LookupId(id); err == nil {
		return known.Username
	}
	return id
}
