// Package workspace has what every sandbox with a root of its own has in common: where
// commands start, who they are, and what is in their environment.
package workspace

import (
	"slices"
	"strings"
)

const (
	Dir   = "/workspace" // the start directory and HOME
	Alias = "/home/user" // the same files again

	// User is who commands run as. An image need not know the user.
	User = "1000:1000"

	// Login is the name of User in the environment.
	Login = "user"

	// path is the engines' own, for images that set none.
	path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Environ returns what every command of a sandbox finds in its environment: the
// image's, then what stands for the user, then what the options add. Of entries of the
// same key the last holds (backend.Spec.Environ).
func Environ(image []string, user string, added map[string]string) []string {
	login, _, _ := strings.Cut(user, ":")
	if strings.Trim(login, "0123456789") == "" {
		login = Login
	}
	own := []string{
		"HOME=" + Dir, "USER=" + login, "LOGNAME=" + login,
		"LANG=C.UTF-8", "TMPDIR=/tmp",
	}
	var last []string
	for k, v := range added {
		last = append(last, k+"="+v)
	}
	slices.Sort(last)
	return slices.Concat([]string{"PATH=" + path}, image, own, last)
}
