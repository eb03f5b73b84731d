//go:build !unix

package host

import "os"

func Remove(root string) error { return os.RemoveAll(root) }
