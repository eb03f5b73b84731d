package docker

import (
	"slices"
	"strings"
)

const (
	workspace = "/workspace" // the start directory and HOME
	homeUser  = "/home/user" // the same files again

	// defaultUser is who commands run as. An image need not know the user.
	defaultUser = "1000:1000"

	// defaultLogin is the name of defaultUser in the environment.
	defaultLogin = "user"

	// defaultPath is the engine's own, for images that set none.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// baseEnv returns what every command of a sandbox finds in its environment: the
// image's, then what stands for the user, then what the options add. Of entries of the
// same key the last holds (backend.Spec.Environ).
func baseEnv(image []string, user string, added map[string]string) []string {
	login, _, _ := strings.Cut(user, ":")
	if strings.Trim(login, "0123456789") == "" {
		login = defaultLogin
	}
	own := []string{
		"HOME=" + workspace, "USER=" + login, "LOGNAME=" + login,
		"LANG=C.UTF-8", "TMPDIR=/tmp",
	}
	var last []string
	for k, v := range added {
		last = append(last, k+"="+v)
	}
	slices.Sort(last)
	return slices.Concat([]string{"PATH=" + defaultPath}, image, own, last)
}
